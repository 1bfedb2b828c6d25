"""All that the record format allows is copied unchanged, or is bad with its offset named; no crash and no loop."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec
import pytest
from confluent_kafka import Message

from app.core.pipelines.pipeline import (
    ErrorHandling,
    FailurePolicy,
    Identity,
    ProcessingGuarantee,
    PythonFunction,
    PythonScope,
    Route,
    StepOperator,
    Steps,
    Transform,
)
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.odd_records import NONE_MS, OddRecord, drawn, json_objects, now_ms, records, values, write_raw
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from tests.support.topics import create_topic, delete_topics
from tests.support.verifier import Found
from workers.native.taking import why_objects
from workers.transforms.build import build
from workers.transforms.headers import UNREADABLE_NAME, readable
from workers.transforms.user_code import sha256_of

USUAL, ODD = 60, 3
LARGE_BYTES = 1_200_000
HOUR_MS = 3_600_000
SOURCE = {"max.message.bytes": "8000000", "message.timestamp.after.max.ms": str((1 << 63) - 1)}
DEAD = {"max.message.bytes": "8000000"}
SOURCE_CODE = (
    "def one(record):\n    return record\n\n\ndef each(records):\n    return [[record] for record in records]\n\n\n"
    "def rows(batch):\n    return batch.select(['value'])\n"
)
TRANSFORMS = ["identity", "steps", "python", "python-batch", "python-arrow"]
FUNCTIONS = {
    "python": ("one", PythonScope.RECORD),
    "python-batch": ("each", PythonScope.BATCH),
    "python-arrow": ("rows", PythonScope.ARROW),
}
Seen = tuple[str, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int | None]


def transform_of(kind: str, *, routed: str) -> Transform:
    match kind:
        case "identity":
            return Identity()
        case "steps":
            return Steps(steps=(Route(field="r", operator=StepOperator.EXISTS, topic=routed),))
        case _:
            function, scope = FUNCTIONS[kind]
            return PythonFunction(function=function, scope=scope, file_name="pass.py", sha256=sha256_of(SOURCE_CODE))


class Expected:
    """The required treatment of one record, from its bytes alone; nothing in it knows the loop."""

    def __init__(
        self, kind: str, record: OddRecord, *, sink: str, routed: str, until_ms: int, carries_any_name: bool
    ) -> None:
        self._record = record
        self.topics, self._value = [sink], record.value
        self.is_bad = record.timestamp_ms == 0 or record.timestamp_ms > until_ms
        self.is_bad = self.is_bad or not (carries_any_name or record.has_readable_names)
        if kind == "steps":
            self._of_steps(sink, routed)
        elif record.value is not None and len(record.value) > LARGE_BYTES and len(set(record.value)) > 1:
            self.is_bad = True
        self._has_new_time = False
        if kind.startswith("python"):
            self._has_new_time = record.timestamp_ms == NONE_MS
            self.is_bad = self.is_bad or record.timestamp_ms < NONE_MS

    def _of_steps(self, sink: str, routed: str) -> None:
        if self._record.value is None:
            self.topics = [sink, routed]
            return
        try:
            found: Any = msgspec.json.decode(self._record.value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            found = None
        if not isinstance(found, dict):
            self.is_bad = True
            return
        self._value = msgspec.json.encode(found)
        self.topics = [routed if "r" in found else sink]

    def seen_in(self, topic: str) -> Seen:
        headers = tuple(
            (readable_name(name, number), value) for number, (name, value) in enumerate(self._record.headers)
        )
        at = None if self._has_new_time else self._record.timestamp_ms
        return topic, self._record.key, self._value, headers, at


def readable_name(name: bytes, number: int) -> str:
    """As confluent-kafka's reader shows it: `read_headers` names those that it cannot read."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return f"{UNREADABLE_NAME}{number}"


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    return readable(message) or []


def seen(topic: str, found: Found) -> Seen:
    return topic, found.key, found.value, tuple(found.headers), found.timestamp_ms


class Case:
    """A pipeline over a source of such records, and what is expected of it."""

    def __init__(self, pipeline: TestPipeline, kind: str, guarantee: ProcessingGuarantee, rng: random.Random) -> None:
        self.pipeline = pipeline
        self._kind = kind
        self.is_exact = guarantee is not ProcessingGuarantee.AT_LEAST_ONCE
        self.routed, self.dead = f"{pipeline.sink}.routed", f"{pipeline.sink}.dead"
        create_topic(pipeline.bootstrap_servers, self.routed)
        create_topic(pipeline.bootstrap_servers, self.dead, config=DEAD)
        self.written = self._records(rng)
        write_raw(pipeline.bootstrap_servers, pipeline.source, self.written)
        until_ms = now_ms() + HOUR_MS
        self.transform = transform_of(kind, routed=self.routed)
        definition = msgspec.structs.replace(pipeline.definition, transform=self.transform)
        carries_any_name = why_objects(definition, may_be_native=pipeline.specification().native_records) is None
        self.expected = [
            Expected(
                kind,
                record,
                sink=pipeline.sink,
                routed=self.routed,
                until_ms=until_ms,
                carries_any_name=carries_any_name,
            )
            for record in self.written
        ]

    def _records(self, rng: random.Random) -> list[OddRecord]:
        now, any_value = now_ms(), values(json_objects(msgspec.json.encode))
        made = drawn(records(any_value, now, are_odd=False), USUAL, seed=rng.getrandbits(32))
        odd = drawn(records(any_value, now, are_odd=True), ODD, seed=rng.getrandbits(32))
        large = [rng.randbytes(LARGE_BYTES + 1), bytes(LARGE_BYTES + 1)]
        odd += [OddRecord(b"large", value, ((b"h", b""),), now) for value in large]
        for record in odd:
            made.insert(rng.randrange(len(made)), record)
        return made

    @property
    def bad_offsets(self) -> list[int]:
        return [offset for offset, expected in enumerate(self.expected) if expected.is_bad]

    def stop(self) -> None:
        """With the policy `fail` it stops at a bad record, and names it; what comes before is there."""
        specification = self.pipeline.specification(transform=self.transform)
        with running(
            specification, transform=build(self.transform, source=SOURCE_CODE, sink_topic=self.pipeline.sink)
        ) as task:
            error = str(task.join_error())
        named = re.search(rf"the record at {re.escape(self.pipeline.source)}-0 offset (\d+) cannot be processed", error)
        assert named is not None, error
        assert int(named[1]) in self.bad_offsets
        committed = verifier.committed_offsets(self.pipeline.bootstrap_servers, self.pipeline.definition.group_id)
        self.assert_outputs(before=committed.get((self.pipeline.source, 0), 0))

    def run(self, policy: FailurePolicy) -> None:
        """Until all records are committed; what is counted is what is expected."""
        is_skip = policy is FailurePolicy.SKIP
        errors = ErrorHandling(policy=policy, dead_letter_topic=None if is_skip else self.dead)
        specification = self.pipeline.specification(attempt=1, errors=errors, transform=self.transform)
        end = {(self.pipeline.source, 0): len(self.written)}
        servers, group = self.pipeline.bootstrap_servers, self.pipeline.definition.group_id
        before = verifier.committed_offsets(servers, group).get((self.pipeline.source, 0), 0)
        with running(
            specification, transform=build(self.transform, source=SOURCE_CODE, sink_topic=self.pipeline.sink)
        ) as task:
            left = len(self.written) - before
            task.wait_until(lambda last: last.counters.records_in >= left, f"{left} records", deadline_s=120)
            task.drain()
        counters = task.control.last.counters
        bad = len(self.bad_offsets)
        assert verifier.committed_offsets(servers, group) == end
        assert (counters.records_skipped, counters.records_dead_lettered) == ((bad, 0) if is_skip else (0, bad))
        good = [one for one in self.expected[before:] if not one.is_bad]
        assert counters.records_out == sum(len(one.topics) for one in good)

    def assert_outputs(self, *, before: int) -> None:
        """Check each topic's outputs of the records before this offset: complete, unchanged and in order."""
        good = [one for one in self.expected[:before] if not one.is_bad]
        for topic in (self.pipeline.sink, self.routed):
            wanted = [one.seen_in(topic) for one in good if topic in one.topics]
            records = verifier.read_all(self.pipeline.bootstrap_servers, topic, headers_of=headers_of)
            found = [seen(topic, record) for record in records]
            if self.is_exact:
                assert len(found) == len(wanted)
                # Where the time of writing is expected, any time will do.
                found = [
                    one if expected[4] is not None else (*one[:4], None)
                    for one, expected in zip(found, wanted, strict=True)
                ]
                assert found == wanted
            else:
                # Outputs of an aborted checkpoint stay, also those of records that come later.
                assert {one[:4] for one in wanted} <= {one[:4] for one in found}

    def assert_dead_letters(self) -> None:
        """One for each bad record, with its key, value and readable headers, and where it came from."""
        found = verifier.read_all(self.pipeline.bootstrap_servers, self.dead)
        by_offset = {int(dict(letter.headers)["fenceline.offset"] or b""): letter for letter in found}
        assert sorted(by_offset) == self.bad_offsets
        assert len(found) == len(by_offset) or not self.is_exact
        for offset, letter in by_offset.items():
            record = self.written[offset]
            assert (letter.key, letter.value) == (record.key, record.value)
            own = letter.headers[: len(record.headers)]
            assert [value for _, value in own] == [value for _, value in record.headers]
            for number, ((name, _), (raw, _)) in enumerate(zip(own, record.headers, strict=True)):
                assert name in (raw.decode(errors="replace"), f"fenceline.unreadable-header-{number}")
            kept_ms = dict(letter.headers[len(record.headers) :]).get("fenceline.timestamp", None)
            assert (letter.timestamp_ms if kept_ms is None else int(kept_ms)) == record.timestamp_ms


@pytest.mark.faults(keep=4)
@pytest.mark.parametrize("guarantee", list(ProcessingGuarantee))
@pytest.mark.parametrize("policy", list(FailurePolicy))
@pytest.mark.parametrize("kind", TRANSFORMS)
def test_any_record_is_carried_whole_or_is_bad_with_its_offset_named(
    make_pipeline: MakePipeline,
    kind: str,
    policy: FailurePolicy,
    guarantee: ProcessingGuarantee,
    rng: random.Random,
    seed: int,
) -> None:
    print(f"records drawn with --seed {seed}")  # noqa: T201 - pytest shows it where the test fails
    pipeline = make_pipeline(
        partitions=1, processing_guarantee=guarantee, source_config=SOURCE, transaction_timeout_ms=30_000
    )
    case = Case(pipeline, kind, guarantee, rng)
    if policy is FailurePolicy.FAIL:
        case.stop()
        policy = FailurePolicy.SKIP
    case.run(policy)
    case.assert_outputs(before=len(case.written))
    if policy is FailurePolicy.DEAD_LETTER:
        case.assert_dead_letters()
    delete_topics(pipeline.bootstrap_servers, [case.routed, case.dead])
