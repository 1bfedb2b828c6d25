"""One system, once: how fast its output grows when it is warm, and whether what came out is whole."""

from __future__ import annotations

import time
from typing import NamedTuple

import msgspec

from bench.peers.load import Load
from bench.peers.systems import Check, Place, System
from bench.peers.work import Topics, Work, judge

_BEGINS_WITHIN_S = 120.0
_LOOKS_EACH_S = 0.1


class Filled(NamedTuple):
    """A source, and how many records it has."""

    topic: str
    records: int


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Records of the input a second, over `seconds` that began `warm_s` after the first output was committed.

    Attributes:
        began_s: from its start to its first committed output.
        reached_end: the source was read to its end before the time was over; `seconds` are those until then.
        broker_cores, system_cores: processor time of the broker, and of all that the system consists of, a second.
        largest_mb: resident memory of the system's largest process, when the time was over.
    """

    records_per_second: float
    seconds: float
    began_s: float
    reached_end: bool
    outputs: int
    lost: int
    duplicated: int
    broker_cores: float
    system_cores: float
    largest_mb: int


def measure(
    place: Place,
    system: System,
    work: Work,
    source: Filled,
    topics: Topics,
    *,
    sink: str,
    warm_s: float,
    seconds: float,
) -> Measured:
    """Raises AssertionError when nothing comes out, or it comes out wrong for what the system promises."""
    topics.create(sink)
    expected = source.records * work.outputs_of_each
    started_at = time.monotonic()
    with system.start(place, work, source.topic, sink) as check:
        first_at = _wait_for_output(topics, sink, system, check)
        _sleep_until(first_at + warm_s)
        from_at, from_count = time.monotonic(), sum(topics.ends(sink).values())
        at, count = from_at, from_count
        load = Load(place.broker_pid)
        while (now := time.monotonic()) < from_at + seconds and count < expected:
            _sleep_until(min(now + _LOOKS_EACH_S, from_at + seconds))
            seen = sum(topics.ends(sink).values())
            if seen > count:
                at, count = time.monotonic(), seen
        used = load.since()
    found = judge(topics, sink, work, records=source.records)
    topics.delete(sink)
    measured = Measured(
        records_per_second=(count - from_count) / (at - from_at) / work.outputs_of_each,
        seconds=round(at - from_at, 2),
        began_s=round(first_at - started_at, 2),
        reached_end=count >= expected,
        outputs=found.records,
        lost=found.lost,
        duplicated=found.duplicated,
        **used,
    )
    if system.promises != "nothing":
        assert not found.lost, f"{system.name}: {measured}"
    if system.promises == "exactly once":
        assert not found.duplicated, f"{system.name}: {measured}"
    return measured


def _wait_for_output(topics: Topics, sink: str, system: System, check: Check) -> float:
    deadline = time.monotonic() + _BEGINS_WITHIN_S
    while not sum(topics.ends(sink).values()):
        check()
        assert time.monotonic() < deadline, f"{system.name}: nothing came out within {_BEGINS_WITHIN_S:g} s"
        time.sleep(_LOOKS_EACH_S)
    return time.monotonic()


def _sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))
