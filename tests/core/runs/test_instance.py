"""The sentence about an instance whose tasks wait for cores."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.core.runs.instance import Instance, InstanceState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("running", "waiting", "sentence"),
    [
        (1, 3, "3 of 4 tasks wait for a core"),
        (3, 1, "1 of 4 tasks waits for a core"),
        (0, 4, "4 of 4 tasks wait for a core"),
        (None, 2, "2 of 2 tasks wait for a core"),
        (4, 0, None),
        (None, None, None),
    ],
)
def test_tasks_without_a_slot_are_counted_in_words(
    running: int | None, waiting: int | None, sentence: str | None
) -> None:
    instance = Instance(
        run_id="r",
        ordinal=0,
        lease=1,
        revision=1,
        state=InstanceState.RUNNING,
        since=NOW,
        leased_at=NOW,
        tasks_running=running,
        tasks_waiting=waiting,
    )
    assert instance.slots_sentence() == sentence
