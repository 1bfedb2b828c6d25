"""Clusters: registered only if they answer, with allowed addresses and secrets as references."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.clusters import service as clusters
from app.core.clusters.store import ClusterStore
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.kit.errors import BrokerUnreachableError, ConflictError, InvalidError, NotFoundError
from tests.support.control_plane import ANNA, ControlPlane
from tests.support.hostile_broker import API_VERSIONS, METADATA, hang_up, metadata, serving, versions

BROKERS = KafkaBrokers(environment={}, secrets_dir=None)


async def register(plane: ControlPlane, address: str, *, name: str = "real", **config: str) -> None:
    async with plane.uow() as uow:
        await clusters.register_cluster(
            uow,
            BROKERS,
            name=name,
            bootstrap_servers=address,
            client_config={key.replace("_", "."): value for key, value in config.items()},
            allowed_addresses=(),
            by=ANNA,
            why=None,
            now=plane.now,
            timeout_s=2.0,
        )
        await uow.commit()


async def test_a_cluster_is_kept_under_the_id_that_its_brokers_report(plane: ControlPlane, kafka: KafkaCluster) -> None:
    await register(plane, kafka.bootstrap_servers)
    async with plane.uow() as uow:
        cluster = await clusters.get_cluster(uow, "real")
        description = await clusters.probe_cluster(uow, BROKERS, "real")
    assert cluster.kafka_cluster_id == description.cluster_id
    assert [f"{broker.host}:{broker.port}" for broker in description.brokers] == [kafka.bootstrap_servers]
    with pytest.raises(ConflictError, match="a cluster with this name is registered already"):
        await register(plane, kafka.bootstrap_servers)


async def test_nothing_is_kept_of_a_cluster_that_does_not_answer(plane: ControlPlane) -> None:
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:9.*tried for"):
        await register(plane, "127.0.0.1:9")
    async with plane.uow() as uow:
        assert await clusters.list_clusters(uow) == []


async def test_every_mistake_of_an_entry_is_named(plane: ControlPlane) -> None:
    with pytest.raises(InvalidError) as refused:
        await register(
            plane,
            "kafka.example.org:9092, nonsense",
            name="Not A Name",
            sasl_password="hunter2",
            plugin_library_paths="evil.so",
        )
    problems = {problem.field: problem.message for problem in refused.value.problems}
    assert set(problems) >= {
        "name",
        "bootstrap_servers",
        "client_config.sasl.password",
        "client_config.plugin.library.paths",
    }
    assert "env:FENCELINE_SECRET_NAME" in problems["client_config.sasl.password"]
    assert not any("hunter2" in message for message in problems.values())


async def test_another_cluster_at_the_same_address_is_noticed(plane: ControlPlane, kafka: KafkaCluster) -> None:
    await register(plane, kafka.bootstrap_servers)
    async with plane.uow() as uow:
        registered = await uow.of(ClusterStore).get("real")
        await uow.of(ClusterStore).add(replace(registered, name="swapped", kafka_cluster_id="what-was-here-before"))
        with pytest.raises(ConflictError, match=r"the cluster at .* has the id .*, but swapped has"):
            await clusters.probe_cluster(uow, BROKERS, "swapped")


async def test_a_cluster_without_pipelines_is_removed(plane: ControlPlane) -> None:
    await plane.pipeline()
    await plane.cluster("unused")
    async with plane.uow() as uow:
        await clusters.remove_cluster(uow, "unused", by=ANNA, why=None, now=plane.now)
        await uow.commit()
    async with plane.uow() as uow:
        with pytest.raises(NotFoundError, match="there is no cluster unused"):
            await clusters.get_cluster(uow, "unused")
        with pytest.raises(ConflictError, match="a pipeline uses the cluster"):
            await clusters.remove_cluster(uow, "test", by=ANNA, why=None, now=plane.now)


async def test_cluster_with_one_broker_at_a_wrong_address_is_neither_registered_nor_probed(plane: ControlPlane) -> None:
    """Every request to a broker of it is answered by the other one."""
    others = {8: 1}

    def answer(number: int, version: int, _: bytes) -> bytes | None:
        if number == API_VERSIONS:
            return versions({API_VERSIONS: (0, 0), METADATA: (0, 2)}, version)
        return metadata(broker.port, version, cluster_id="c", others=others) if number == METADATA else None

    async def probe() -> None:
        async with plane.uow() as uow:
            await clusters.probe_cluster(uow, BROKERS, "partly")

    says = r"broker 8 does not at its advertised address: 127\.0\.0\.1:1: Connection refused"
    with serving(hang_up) as broker:
        broker.answer = answer
        with pytest.raises(BrokerUnreachableError, match=says) as refused:
            await register(plane, broker.address, name="partly")
        assert "broker 7" not in refused.value.message
        others.clear()
        await register(plane, broker.address, name="partly")
        await probe()
        others[8] = 1
        with pytest.raises(BrokerUnreachableError, match=says):
            await probe()
