"""A port that another process takes at the wrong moment does not stop a service from starting."""

import socket
from collections.abc import Generator

import pytest

from app.edges.embedded import ports
from app.edges.embedded.errors import PortTakenError
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.ports import accepts_connections, free_ports
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.embedded.spark import SparkCluster


def test_free_ports_are_different_and_free() -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    assert not any(accepts_connections(port, timeout_s=0.1) for port in found)


class TakenFirst:
    """Stands in for `free_ports`: first names a port that is taken, then what the real one finds."""

    def __init__(self, taken: int) -> None:
        self._taken = [taken]

    def __call__(self, count: int) -> list[int]:
        found = free_ports(count)
        return [self._taken.pop(), *found[1:]] if self._taken else found


@pytest.fixture
def taken_first(monkeypatch: pytest.MonkeyPatch) -> Generator[int]:
    """The next service gets a port on which another process listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port: int = listener.getsockname()[1]
        monkeypatch.setattr(ports, "free_ports", TakenFirst(port))
        yield port


@pytest.mark.slow
def test_broker_whose_port_was_taken_starts_on_another(taken_first: int) -> None:
    with KafkaCluster.start() as cluster:
        assert cluster.broker(1).port != taken_first
        assert "Address already in use" in cluster.broker(1).log_path.read_text(encoding="utf-8")


def test_postgres_whose_port_was_taken_starts_on_another(taken_first: int) -> None:
    with EmbeddedPostgres.start(durable=False) as server:
        assert server.port != taken_first
        assert "Address already in use" in server.process.log_path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_spark_master_whose_port_was_taken_starts_on_another(taken_first: int) -> None:
    with SparkCluster.start(workers=0) as cluster:
        assert cluster.master_url != f"spark://127.0.0.1:{taken_first}"
        assert "Address already in use" in cluster.master.process.log_path.read_text(encoding="utf-8")


def test_port_that_is_taken_again_and_again_is_an_error() -> None:
    given: list[list[int]] = []

    def start(found: list[int]) -> None:
        given.append(found)
        raise PortTakenError("taken")

    with pytest.raises(PortTakenError):
        ports.with_free_ports(2, start)
    assert len(given) == 3
