"""Kafka clusters that pipelines may name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from app.core.access.service import command_log
from app.core.clusters.brokers import DEFAULT_TIMEOUT_S, Brokers, ClusterDescription
from app.core.clusters.cluster import Cluster
from app.core.clusters.cluster_entry import check_advertised, check_cluster
from app.core.clusters.store import ClusterStore
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError


async def register_cluster(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    name: str,
    bootstrap_servers: str,
    client_config: Mapping[str, str],
    allowed_addresses: Collection[str],
    by: Principal,
    why: str | None,
    now: datetime,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Cluster:
    """Store a cluster that answers now; its Kafka cluster id is the one that the brokers report.

    Raises InvalidError with all problems, ConflictError if the name is taken. Raises BrokerUnreachableError if no
    broker answers, or one of them not at its advertised address.
    """
    require(by, Verb.REGISTER_CLUSTER)
    problems = check_cluster(
        name=name,
        bootstrap_servers=bootstrap_servers,
        client_config=client_config,
        allowed_addresses=allowed_addresses,
    )
    if problems:
        raise InvalidError(f"cluster {name} cannot be registered: {problems[0].message}", problems=problems)
    connection = {**client_config, "bootstrap.servers": bootstrap_servers}
    description = await brokers.describe_cluster(connection, timeout_s=timeout_s)
    problems = check_advertised(
        [f"{broker.host}:{broker.port}" for broker in description.brokers], allowed_addresses=allowed_addresses
    )
    if problems:
        raise InvalidError(f"cluster {name} cannot be registered: {problems[0].message}", problems=problems)
    await brokers.reach_each(connection, description.brokers, timeout_s=timeout_s)
    cluster = Cluster(
        name=name,
        kafka_cluster_id=description.cluster_id,
        bootstrap_servers=bootstrap_servers,
        client_config=dict(client_config),
        created_at=now,
        created_by=by.name,
    )
    await uow.of(ClusterStore).add(cluster)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.REGISTER_CLUSTER,
        target=f"cluster:{name}",
        why=why,
        now=now,
        outcome=f"registered; its cluster id is {description.cluster_id}",
        details={"bootstrap_servers": bootstrap_servers, "kafka_cluster_id": description.cluster_id},
    )
    uow.notify("cluster", name)
    return cluster


async def list_clusters(uow: UnitOfWork) -> list[Cluster]:
    """Return all clusters, by name."""
    return await uow.of(ClusterStore).list_all()


async def get_cluster(uow: UnitOfWork, name: str) -> Cluster:
    return await uow.of(ClusterStore).get(name)


async def probe_cluster(
    uow: UnitOfWork, brokers: Brokers, name: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
) -> ClusterDescription:
    """Return the cluster's description now. Raises ConflictError if another cluster answers than the registered one."""
    cluster = await uow.of(ClusterStore).get(name)
    description = await brokers.describe_cluster(cluster.connection(), timeout_s=timeout_s)
    refuse_other_cluster(cluster, description.cluster_id)
    await brokers.reach_each(cluster.connection(), description.brokers, timeout_s=timeout_s)
    return description


async def remove_cluster(uow: UnitOfWork, name: str, *, by: Principal, why: str | None, now: datetime) -> None:
    """Remove a cluster that no pipeline names. Raises ConflictError while one does."""
    require(by, Verb.REMOVE_CLUSTER)
    cluster = await uow.of(ClusterStore).get(name)
    await uow.of(ClusterStore).remove(name)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.REMOVE_CLUSTER,
        target=f"cluster:{name}",
        why=why,
        now=now,
        outcome="removed",
        details={"bootstrap_servers": cluster.bootstrap_servers, "kafka_cluster_id": cluster.kafka_cluster_id},
    )
    uow.notify("cluster", name)


def refuse_other_cluster(cluster: Cluster, reported_id: str | None) -> None:
    """Raise ConflictError if the address is another cluster's now: ids and mappings would belong to the wrong one."""
    if reported_id is not None and reported_id != cluster.kafka_cluster_id:
        raise ConflictError(
            f"the cluster at {cluster.bootstrap_servers} has the id {reported_id}, but {cluster.name} has "
            f"{cluster.kafka_cluster_id}: correct the address, or register another name"
        )
