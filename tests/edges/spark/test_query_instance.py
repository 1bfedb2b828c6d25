"""An instance of a pipeline of kind dataframe in a local Spark, without a server: its output, drain and endings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from app.core.pipelines.pipeline import DataframeQuery, PipelineDefinition, SparkSettings, Stream
from app.core.runs.task import OutcomeKind
from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.quiet import QUIET
from tests.support.spark_instances import SparkInstances, StartedInstance
from tests.support.topics import unique_name
from tests.support.verifier import read_all
from tests.support.waiting import wait_for
from workers.spark.exit_codes import DriverExitCode
from workers.transforms.user_code import sha256_of

pytestmark = pytest.mark.slow

START_S = 1_700_000_000
EVENTS = 1500
PER_WINDOW = """
SELECT carrier AS key, unix_seconds(window.start) AS start, carrier, count(*) AS n, sum(delay) AS delay
FROM flights GROUP BY window(at, '10 seconds'), carrier
"""
START_DEADLINE_S = 240


@pytest.fixture
def instances(kafka: KafkaCluster, tmp_path: Path, worker_cache: Path) -> Generator[SparkInstances]:
    made = SparkInstances(
        state_dir=tmp_path / "state",
        cache_dir=worker_cache,
        master="local[2]",
        bootstrap_servers=kafka.bootstrap_servers,
    )
    yield made
    made.kill_all()


def events(numbers: Iterable[int]) -> list[dict[str, Any]]:
    return [
        {"carrier": "AABBCD"[number % 6 : number % 6 + 2], "delay": number % 61 - 20, "at": START_S + number // 10}
        for number in numbers
    ]


def write(instances: SparkInstances, topic: str, values: Iterable[dict[str, Any]]) -> None:
    producer = Producer({"bootstrap.servers": instances.bootstrap_servers, **QUIET})
    for number, value in enumerate(values):
        said = value | {"at": datetime.fromtimestamp(value["at"], UTC).isoformat()}
        producer.produce(topic, value=json.dumps(said).encode(), partition=number % 2)
    assert producer.flush(30) == 0


def definition(source: str, sink: str, checkpoint: Path, **query: Any) -> PipelineDefinition:
    flights = Stream(
        name="flights",
        topic=source,
        schema="carrier STRING, delay INT, at TIMESTAMP",
        event_time="at",
        watermark_ms=30_000,
    )
    asked: dict[str, Any] = {
        "streams": (flights,),
        "max_offsets_per_trigger": 200,
        "trigger_ms": 500,
        "shuffle_partitions": 2,
        **query,
    }
    return PipelineDefinition(
        cluster="embedded",
        source_topics=(source,),
        sink_topic=sink,
        group_id=unique_name("group"),
        transform=DataframeQuery(checkpoint=str(checkpoint), **asked),
        spark=SparkSettings(master="local[2]"),
    )


def submit(
    instances: SparkInstances, wanted: PipelineDefinition, *, lease: int = 1, source: str | None = None
) -> StartedInstance:
    specification = instances.specification(wanted, lease=lease, run_id="r")
    return instances.submit(replace(specification, transform_source=source))


def expected_windows(values: list[dict[str, Any]]) -> Counter[tuple[bytes, bytes]]:
    found: dict[tuple[str, int], list[int]] = {}
    for value in values:
        found.setdefault((value["carrier"], value["at"] // 10 * 10), []).append(value["delay"])
    return Counter(
        (
            carrier.encode(),
            json.dumps(
                {"start": start, "carrier": carrier, "n": len(delays), "delay": sum(delays)}, separators=(",", ":")
            ).encode(),
        )
        for (carrier, start), delays in found.items()
    )


def commits(checkpoint: Path) -> int:
    folder = checkpoint / "commits"
    return len([file for file in folder.glob("*") if file.name.isdigit()]) if folder.is_dir() else 0


def wait_for_commits(instance: StartedInstance, checkpoint: Path, count: int) -> None:
    wait_for(
        lambda: commits(checkpoint) >= count or instance.files.outcome.exists(),
        START_DEADLINE_S,
        lambda: f"{count} batches; there are {commits(checkpoint)}\n{instance.log()[-3000:]}",
    )
    assert not instance.files.outcome.exists(), instance.log()[-3000:]


def test_windows_are_exact_across_a_drain_and_a_restart(
    instances: SparkInstances, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, sink, checkpoint = make_topic(partitions=2), make_topic(partitions=2), tmp_path / "checkpoint"
    values = events(range(EVENTS))
    write(instances, source, values)
    wanted = definition(source, sink, checkpoint, sql=PER_WINDOW)

    first = submit(instances, wanted)
    wait_for_commits(first, checkpoint, 3)
    first.sigterm()
    ended = first.wait_until_gone().outcome
    assert ended is not None, first.log()[-3000:]
    assert (ended.kind, ended.message) == (OutcomeKind.DRAINED, "drained on SIGTERM")
    assert first.exit_code() == DriverExitCode.DRAINED
    done = commits(checkpoint)
    assert done < EVENTS // 200, "the drain was in the middle"
    assert "aborted" not in first.log()

    # An event far ahead in each partition closes all windows.
    write(instances, source, [{"carrier": "ZZ", "delay": 0, "at": START_S + 10_000}] * 2)
    second = submit(instances, wanted, lease=2)
    expected = expected_windows(values)

    def found() -> Counter[tuple[bytes | None, bytes | None]]:
        return Counter((each.key, each.value) for each in read_all(instances.bootstrap_servers, sink))

    wait_for(
        lambda: sum(found().values()) >= sum(expected.values()) or second.files.outcome.exists(),
        START_DEADLINE_S,
        lambda: f"{sum(expected.values())} windows; {sum(found().values())}\n{second.log()[-3000:]}",
    )
    second.sigterm()
    again = second.wait_until_gone().outcome
    assert again is not None
    assert again.kind == OutcomeKind.DRAINED, again.message
    assert found() == expected


def test_a_file_transforms_and_a_record_that_is_not_json_ends_it_with_its_place(
    instances: SparkInstances, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, sink, checkpoint = make_topic(partitions=2), make_topic(partitions=1), tmp_path / "checkpoint"
    file = "def late(spark, streams):\n    return streams['flights'].where('delay > 15').select('carrier', 'delay')\n"
    values = events(range(100))
    write(instances, source, values)
    wanted = definition(
        source, sink, checkpoint, function="late", file_name="late.py", sha256=sha256_of(file), sql=None
    )
    instance = submit(instances, wanted, source=file)
    wait_for_commits(instance, checkpoint, 1)
    expected = Counter(
        json.dumps({"carrier": each["carrier"], "delay": each["delay"]}, separators=(",", ":")).encode()
        for each in values
        if each["delay"] > 15
    )
    assert Counter(each.value for each in read_all(instances.bootstrap_servers, sink)) == expected

    producer = Producer({"bootstrap.servers": instances.bootstrap_servers, **QUIET})
    producer.produce(source, value=b"no json", partition=1)
    assert producer.flush(30) == 0
    ended = instance.wait_until_gone(120).outcome
    assert ended is not None
    assert ended.kind == OutcomeKind.HOPELESS
    assert f"the value of {source}-1@50 does not fit the schema of flights" in ended.message


def test_a_refusal_of_the_sink_is_a_permanent_error(
    instances: SparkInstances, make_topic: MakeTopic, tmp_path: Path
) -> None:
    wanted = definition(
        make_topic(partitions=1), "absent-topic", tmp_path / "checkpoint", sql="SELECT carrier FROM flights"
    )
    ended = submit(instances, wanted).wait_until_gone(START_DEADLINE_S).outcome
    assert ended is not None
    assert ended.kind == OutcomeKind.HOPELESS
    assert ended.message == "topic absent-topic does not exist. Create it first: the sink creates no topic."
