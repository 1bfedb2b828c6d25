"""Freshness: old data are never called live."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.core.journals.transaction_state import TOPIC
from app.core.observing.snapshot import JournalStatus, ReadingPhase, SnapshotSource
from app.core.observing.wording import Quality, notes_of, quality_of
from tests.support.observing import NOW_MS


def told(phase: ReadingPhase, **more: Any) -> tuple[Quality, str]:
    return quality_of(JournalStatus(topic=TOPIC, phase=phase, phase_since_ms=0, **more), now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("phase", "more", "quality", "part"),
    [
        (ReadingPhase.LIVE, {"as_of_ms": NOW_MS - 300}, Quality.LIVE, "Read from `__transaction_state`."),
        (
            ReadingPhase.LIVE,
            {"as_of_ms": NOW_MS - 5_000, "lag_records": 1_200},
            Quality.STALE,
            "state of 5 s ago, 1,200",
        ),
        (
            ReadingPhase.LIVE,
            {"as_of_ms": NOW_MS - 5_000, "lag_records": 1},
            Quality.STALE,
            "1 record of `__transaction_state` is",
        ),
        (
            ReadingPhase.LIVE,
            {"as_of_ms": NOW_MS - 600_000, "lag_records": 7, "problem": "a leader is gone"},
            Quality.STALE,
            "yet: a leader",
        ),
        (
            ReadingPhase.LIVE,
            {"as_of_ms": NOW_MS - 600_000, "problem": "a leader is gone"},
            Quality.STALE,
            "state of 10 min ago, and `__transaction_state` was not read completely since: a leader",
        ),
        (ReadingPhase.LIVE, {"as_of_ms": NOW_MS, "problem": "a leader is gone"}, Quality.PARTIAL, "A leader is gone."),
        (
            ReadingPhase.CATCHING_UP,
            {"partitions": 50, "partitions_caught_up": 3},
            Quality.PARTIAL,
            "3 of 50 partitions",
        ),
        (
            ReadingPhase.CATCHING_UP,
            {"source": SnapshotSource.ADMIN_CALLS},
            Quality.PARTIAL,
            "others show their coordinators",
        ),
        (ReadingPhase.REFUSED, {"problem": "it may not be read"}, Quality.PARTIAL, "It may not be read."),
        (
            ReadingPhase.REFUSED,
            {"problem": "x is asked instead", "source": SnapshotSource.ADMIN_CALLS, "as_of_ms": NOW_MS - 4_000},
            Quality.PARTIAL,
            "X is asked instead. They were asked 4 s ago.",
        ),
        (ReadingPhase.LOST, {"problem": "no route", "as_of_ms": NOW_MS - 90_000}, Quality.STALE, "state of 90 s ago"),
        (ReadingPhase.LOST, {}, Quality.STALE, "Not live: no broker answers."),
        (ReadingPhase.ABSENT, {}, Quality.LIVE, "no client has used it"),
        (ReadingPhase.CONNECTING, {}, Quality.NOTHING, "Connecting to the cluster for"),
        (
            ReadingPhase.OFF,
            {"problem": "by the settings"},
            Quality.NOTHING,
            "The journals are not read: by the settings.",
        ),
    ],
)
def test_each_phase_has_its_sentence(phase: ReadingPhase, more: dict[str, Any], quality: Quality, part: str) -> None:
    found, sentence = told(phase, **more)
    assert found is quality
    assert part in sentence


def test_every_phase_has_a_sentence() -> None:
    assert all(told(phase)[1] for phase in ReadingPhase)


def test_unreadable_records_are_reported_with_reasons() -> None:
    status = JournalStatus(topic=TOPIC, phase=ReadingPhase.LIVE, phase_since_ms=0)
    assert notes_of(status) == []
    one = msgspec.structs.replace(status, unreadable={"value version 9": 1})
    assert notes_of(one) == ["1 record of `__transaction_state` could not be read: value version 9 (1)."]
    many = msgspec.structs.replace(status, unreadable={f"reason {number}": number for number in range(1, 6)})
    (sentence,) = notes_of(many)
    assert "15 records" in sentence
    assert "reason 5 (5), reason 4 (4), reason 3 (3) and 2 other reasons" in sentence
