"""A cluster that does not answer, or refuses, is reported with address and error, within the time limit."""

import socket
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.core.journals.log_look import ReadBound
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.kit.errors import BrokerUnreachableError, InvalidError


class Unreachable(NamedTuple):
    address: str
    says: str


@pytest.fixture(params=["refused", "silent"])
def unreachable(request: pytest.FixtureRequest) -> Generator[Unreachable]:
    """Addresses on this machine: one without a listener, and one that accepts connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        if request.param == "refused":
            server.close()
            yield Unreachable(address, "Connection refused")
        else:
            yield Unreachable(address, "")


Question = Callable[[KafkaBrokers, Connection, float], Awaitable[object]]
AT = Partition("t", 0)
BOUND = ReadBound(partitions=9, records=9, size_bytes=9, for_s=9, before_end=9)
QUESTIONS: dict[str, Question] = {
    "describe_cluster": lambda b, c, s: b.describe_cluster(c, timeout_s=s),
    "facts": lambda b, c, s: b.facts(c, topics=["t"], groups=["g"], timeout_s=s),
    "topics": lambda b, c, s: b.topics(c, timeout_s=s),
    "describe_group": lambda b, c, s: b.describe_group(c, "g", timeout_s=s),
    "committed_offsets": lambda b, c, s: b.committed_offsets(c, "g", timeout_s=s),
    "offsets": lambda b, c, s: b.offsets(c, [AT], timeout_s=s),
    "offsets_at": lambda b, c, s: b.offsets_at(c, [AT], timestamp_ms=0, timeout_s=s),
    "read_partition_log": lambda b, c, s: b.read_partition_log(c, AT, start=0, limit=1, timeout_s=s),
    "read_partition_logs": lambda b, c, s: b.read_partition_logs(c, "t", 0, BOUND, timeout_s=s),
    "list_topics": lambda b, c, s: b.list_topics(c, timeout_s=s),
    "describe_topics": lambda b, c, s: b.describe_topics(c, ["t"], timeout_s=s),
    "live_topic": lambda b, c, s: b.live_topic(c, "t", timeout_s=s),
    "read_transactional_ids": lambda b, c, s: b.read_transactional_ids(c, [0], timeout_s=s),
    "alter_offsets": lambda b, c, s: b.alter_offsets(c, "g", {AT: 0}, timeout_s=s),
}


@pytest.mark.parametrize("question", QUESTIONS)
async def test_unreachable_cluster_fails_within_the_bound_and_says_why(
    brokers: KafkaBrokers, unreachable: Unreachable, question: str, capfd: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    with pytest.raises(BrokerUnreachableError) as raised:
        await QUESTIONS[question](brokers, {"bootstrap.servers": unreachable.address}, 0.5)
    took_s = time.monotonic() - started
    assert raised.value.address == unreachable.address
    assert unreachable.says in raised.value.error
    assert 0 < raised.value.tried_s <= took_s < 1.5
    assert capfd.readouterr().err == ""


async def test_missing_secret_is_named_and_nothing_is_asked(connection: Connection, tmp_path: Path) -> None:
    secured = {**connection, "security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
    brokers = KafkaBrokers(environment={}, secrets_dir=tmp_path)
    with pytest.raises(InvalidError, match="FENCELINE_SECRET_X"):
        await brokers.describe_cluster({**secured, "sasl.password": "env:FENCELINE_SECRET_X"})
    with pytest.raises(InvalidError, match="file:kafka"):
        await brokers.describe_cluster({**secured, "sasl.password": "file:kafka"})


async def test_settings_that_the_client_refuses_are_the_settings_fault(
    brokers: KafkaBrokers, connection: Connection, tmp_path: Path
) -> None:
    settings = {**connection, "security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "absent.pem")}
    with pytest.raises(InvalidError, match=r"ssl\.ca\.location") as raised:
        await brokers.describe_cluster(settings)
    assert raised.value.field == "client_config"


@pytest.mark.slow
async def test_group_questions_survive_a_coordinator_that_is_not_ready_and_a_broker_that_comes_back(
    brokers: KafkaBrokers,
) -> None:
    """A group's first question makes __consumer_offsets."""
    with KafkaCluster.start(overrides={"offsets.topic.num.partitions": "10"}) as cluster:
        connection = {"bootstrap.servers": cluster.bootstrap_servers}
        assert await brokers.committed_offsets(connection, "g", timeout_s=20) == {}
        cluster.broker(1).stop()
        with pytest.raises(BrokerUnreachableError):
            await brokers.describe_group(connection, "g", timeout_s=1)
        cluster.broker(1).start()
        assert (await brokers.describe_group(connection, "g", timeout_s=20)).state == "Dead"
        assert (await brokers.describe_cluster(connection, timeout_s=20)).cluster_id == cluster.cluster_id
