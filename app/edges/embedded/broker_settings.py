"""The server.properties of embedded brokers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from app.edges.embedded.ports import LOOPBACK

PLAINTEXT = "PLAINTEXT"


class BrokerListener(NamedTuple):
    """A listener for clients beside the plain one.

    protocol: as in Kafka's `security.protocol`. advertised: the port on this machine, or `host:port`, that clients get
    if a proxy stands in front of the broker.
    """

    port: int
    protocol: str
    advertised: int | str | None = None

    @property
    def bound(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def address(self) -> str:
        """host:port for clients."""
        if isinstance(self.advertised, str):
            return self.advertised
        return f"{LOOPBACK}:{self.advertised or self.port}"


SETTINGS_FOR_ONE_MACHINE = {
    # A broker that restarts after kill -9 is refused until its old session ends: 9 s by default.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    # The default, 128 MB, is allocated at start and would be half of a small heap.
    "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
}
"""Settings for small brokers that tests kill on purpose, and for no others."""


def broker_settings(
    *,
    node_id: int,
    port: int,
    controller_port: int,
    voters: str,
    brokers: int,
    data: Path,
    listeners: Mapping[str, BrokerListener] | None = None,
) -> dict[str, str]:
    """Return the settings of a node in a cluster of `brokers` nodes; docker-compose.yml has the same for its broker.

    listeners: more of them for clients, by name.
    """
    replicas = min(brokers, 3)
    in_sync = 2 if replicas == 3 else 1
    for_clients = {PLAINTEXT: BrokerListener(port, PLAINTEXT), **(listeners or {})}
    bound = ",".join(f"{name}://{one.bound}" for name, one in for_clients.items())
    advertised = ",".join(f"{name}://{one.address}" for name, one in for_clients.items())
    protocols = ",".join(f"{name}:{one.protocol}" for name, one in for_clients.items())
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{bound},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": advertised,
        "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
        "log.dirs": str(data),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
    }
