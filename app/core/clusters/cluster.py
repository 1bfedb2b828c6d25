"""A Kafka cluster: its address, and the facts that checks and pages need."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that pipelines may name. `kafka_cluster_id` is the id that the brokers reported at its registration.

    client_config: librdkafka settings besides bootstrap.servers (security), with secrets as references only.
    """

    name: str
    kafka_cluster_id: str
    bootstrap_servers: str
    client_config: dict[str, str] = {}
    created_at: datetime
    created_by: str

    def connection(self) -> dict[str, str]:
        """Return all settings that a client needs to connect; secrets are still references."""
        return {**self.client_config, "bootstrap.servers": self.bootstrap_servers}


class TopicFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One topic as the brokers describe it. None always means: its configuration may not be read, or was not requested.

    retention_ms, retention_bytes: the bounds after which it loses its oldest records, if it `deletes`; -1: none.
    deletes, compacts: whether its `cleanup.policy` has `delete`, and `compact`.
    unclean_leader_election: whether a replica without all acknowledged records may become leader.
    topic_id: as the brokers report it; None before Kafka 2.8.
    """

    partitions: int
    replication_factor: int
    min_insync_replicas: int | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    deletes: bool | None = None
    compacts: bool | None = None
    unclean_leader_election: bool | None = None
    topic_id: str | None = None


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a consumer group, as the group coordinator names it."""

    member_id: str
    client_id: str
    host: str


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a cluster at one moment. None always means: the cluster did not report it.

    cluster_id: as the brokers report it; two entries of Fenceline with the same one are the same cluster.
    broker_version: (major, minor) of the *oldest* broker, derived from its API versions.
    offers_consumer_protocol: whether groups of KIP-848 (`group.protocol=consumer`) can be used.
    topics: the existing ones of those requested; a topic that is not here does not exist (or may not be seen).
    similar: for each of the others, the existing topic with the most similar name, if one is similar.
    transaction_max_timeout_ms: the broker setting `transaction.max.timeout.ms`.
    abort_sweep_ms: the longest `transaction.abort.timed.out.transaction.cleanup.interval.ms` of its brokers.
    group_min_session_timeout_ms, group_max_session_timeout_ms: bounds of a classic member's session timeout.
    foreign_members: for each requested group its members that Fenceline did not start.
    assignors: for the classic groups among them, the assignor that their members have agreed on.
    """

    cluster_id: str | None = None
    broker_version: tuple[int, int] | None = None
    offers_consumer_protocol: bool | None = None
    topics: dict[str, TopicFacts] = {}
    similar: dict[str, str] = {}
    transaction_max_timeout_ms: int | None = None
    abort_sweep_ms: int | None = None
    group_min_session_timeout_ms: int | None = None
    group_max_session_timeout_ms: int | None = None
    foreign_members: dict[str, tuple[GroupMember, ...]] = {}
    assignors: dict[str, str] = {}
