"""The recomputation of a window aggregation that a real query has committed, and of copies with planted differences."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.core.pipelines.pipeline import PipelineDefinition
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.spark_sink import spark_kafka_jars
from app.products.audits.comparison import Comparison, Recomputation
from app.products.audits.result import AuditVerdict, EventTimes, FindingTally, IdFinding, verdict
from app.products.audits.specification import (
    AuditSpecification,
    Everything,
    OffsetRange,
    OffsetWindow,
    RecordKey,
    Window,
    specification_of,
)
from app.products.audits.telling import verdict_sentence
from tests.conftest import MakeTopic
from tests.edges.spark.test_query_instance import (
    EVENTS,
    START_S,
    definition,
    events,
    expected_windows,
    submit,
    wait_for_commits,
    write,
)
from tests.products.audits.spark.test_job import carry_out
from tests.support.audits import Writer, examples_of, ids_of
from tests.support.spark_instances import SparkInstances
from tests.support.verifier import read_all
from workers.spark.exit_codes import DriverExitCode

pytestmark = pytest.mark.slow

PER_WINDOW = """
SELECT carrier AS key, window.start AS start, carrier, count(*) AS n, sum(delay) AS delay
FROM flights GROUP BY window(at, '10 seconds'), carrier
"""
CARRIERS = len({event["carrier"] for event in events(range(EVENTS))})
CLOSED, OPEN = 11, 4
"""Of 15 windows the watermark, 30 s behind the newest event, has passed 11."""
Pair = tuple[bytes, bytes]


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


@pytest.fixture
def writer(kafka: KafkaCluster) -> Generator[Writer]:
    made = Writer(kafka.bootstrap_servers)
    yield made
    made.close()


def asked(wanted: PipelineDefinition, sink: str, window: Window, **rules: Any) -> AuditSpecification:
    comparison = Comparison(baseline=Recomputation(), time_field="start", **rules)
    specification = specification_of(
        wanted, audit_id="audit", pipeline="p", revision=1, window=window, id=RecordKey(), comparison=comparison
    )
    return msgspec.structs.replace(specification, sink_topic=sink, sink_topics=(sink,), padding_ms=0)


def recomputed(specification: AuditSpecification, kafka: KafkaCluster, folder: Path) -> Any:
    folder.mkdir()
    jars = ",".join(map(str, spark_kafka_jars()))
    exit_code, outcome = carry_out(specification, kafka.bootstrap_servers, folder, conf=f"--jars {jars}")
    assert exit_code == DriverExitCode.DRAINED, outcome.message
    assert outcome.result is not None
    return outcome.result


def offsets(source: str, start: int, end: int) -> OffsetWindow:
    ranges = tuple(OffsetRange(topic=source, partition=partition, start=start, end=end) for partition in (0, 1))
    return OffsetWindow(ranges=ranges)


def planted(committed: Sequence[Pair]) -> list[Pair]:
    """The committed windows with one altered, one missing and one doubled, each of another key."""
    by_key = {key: (key, value) for key, value in reversed(committed)}
    altered, missing, doubled = (by_key[key] for key in sorted(by_key)[:3])
    fields = msgspec.json.decode(altered[1])
    changed = (altered[0], msgspec.json.encode({**fields, "n": fields["n"] + 1}))
    return [*(changed if one == altered else one for one in committed if one != missing), doubled]


def test_committed_windows_equal_the_recomputation_and_planted_differences_are_found(
    kafka: KafkaCluster, instances: SparkInstances, make_topic: MakeTopic, writer: Writer, tmp_path: Path
) -> None:
    source, sink, checkpoint = make_topic(partitions=2), make_topic(partitions=2), tmp_path / "checkpoint"
    values = events(range(EVENTS))
    write(instances, source, values)
    wanted = definition(source, sink, checkpoint, sql=PER_WINDOW, max_offsets_per_trigger=500)
    instance = submit(instances, wanted)
    # Three batches of 500 events, and one without events that commits the last windows.
    wait_for_commits(instance, checkpoint, 4)
    instance.sigterm()
    instance.wait_until_gone()
    committed = [(one.key or b"", one.value or b"") for one in read_all(kafka.bootstrap_servers, sink)]
    assert len(committed) == CLOSED * CARRIERS

    equal = recomputed(asked(wanted, sink, Everything()), kafka, tmp_path / "equal")
    counts = equal.counts
    assert verdict(equal) is AuditVerdict.CLEAN, verdict_sentence(equal)
    assert (counts.expected, counts.outputs) == (CLOSED * CARRIERS, CLOSED * CARRIERS)
    assert counts.not_comparable == len(expected_windows(values)) - CLOSED * CARRIERS
    assert equal.compared == EventTimes(start_ms=None, end_ms=(START_S + 119 - 10) * 1_000 + 1)

    # One altered, one missing and one doubled window.
    other = make_topic(partitions=1)
    writer.write_values(other, planted(committed))
    broken = recomputed(asked(wanted, other, Everything()), kafka, tmp_path / "broken")
    assert verdict(broken) is AuditVerdict.BROKEN
    one = FindingTally(ids=1, records=1)
    found = broken.counts
    assert (found.different, found.lost, found.duplicated, found.unexpected) == (one, one, one, FindingTally())
    keys = sorted({key.decode() for key, _ in committed})
    findings = (IdFinding.DIFFERENT, IdFinding.LOST, IdFinding.DUPLICATED)
    assert [ids_of(broken, finding) for finding in findings] == [[keys[0]], [keys[1]], [keys[2]]]
    (altered,) = examples_of(broken, IdFinding.DIFFERENT)
    assert [value.field for value in altered.values] == ["n"]

    # The first record of the range is at 20 s and the last at 147 s. Both sides lose the watermark's delay.
    part = recomputed(asked(wanted, sink, offsets(source, 100, 740)), kafka, tmp_path / "part")
    assert verdict(part) is AuditVerdict.CLEAN, verdict_sentence(part)
    assert (part.counts.expected, part.counts.outputs) == (4 * CARRIERS, 4 * CARRIERS)
    assert part.counts.not_comparable > 0
    assert part.compared == EventTimes(start_ms=(START_S + 60) * 1_000 + 1, end_ms=(START_S + 107) * 1_000 + 1)


def test_query_whose_rows_prove_nothing_is_refused(kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path) -> None:
    source, sink = make_topic(partitions=1), make_topic(partitions=1)
    wanted = definition(source, sink, tmp_path / "checkpoint", sql="SELECT DISTINCT carrier, at FROM flights")
    exit_code, outcome = carry_out(asked(wanted, sink, Everything()), kafka.bootstrap_servers, tmp_path)
    assert exit_code == DriverExitCode.FAILED
    assert outcome.message == "DISTINCT drops rows that repeat earlier ones, which may lie before the range."
