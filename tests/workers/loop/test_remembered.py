"""Offsets known as committed: by this task, and by others since."""

from __future__ import annotations

import pytest

from app.core.clusters.partition import Partition
from app.core.runs.recorded_offset import LostOffset, RecordedOffset
from workers.loop.group.ownership import Ownership
from workers.loop.group.remembered import Remembered

NAME: Partition = Partition("t", 0)
KEPT, GIVEN_UP = NAME, Partition("t", 1)


def remembered(*, by_server: int, topic_id: str = "X") -> Remembered:
    recorded = RecordedOffset(topic="t", partition=0, offset=by_server, topic_id=topic_id)
    made = Remembered((), ownership=Ownership(), ask=lambda: (recorded,), clock=lambda: 100.0)
    made.topic_is("t", "X", changes=0)
    return made


@pytest.mark.parametrize("here", [0, 100, 500])
def test_later_commits_of_others_count_though_this_task_has_recorded_less(here: int) -> None:
    found = remembered(by_server=500)
    found.note({NAME: here})
    assert found.lost({NAME: 0}) == (LostOffset(topic="t", partition=0, recorded=500, begins=0),)


def test_commits_of_this_task_count_though_the_server_has_not_recorded_them_yet() -> None:
    found = remembered(by_server=100)
    found.note({NAME: 500})
    assert found.lost({NAME: 0}) == (LostOffset(topic="t", partition=0, recorded=500, begins=0),)


def test_larger_offset_of_an_older_topic_of_that_name_does_not_count() -> None:
    found = remembered(by_server=500, topic_id="older")
    found.note({NAME: 100})
    assert found.lost({NAME: 0}) == (LostOffset(topic="t", partition=0, recorded=100, begins=0),)
    assert found.lost({NAME: 100}) == ()


def drained() -> Remembered:
    """The report of an attempt that had both partitions, and released one before it drained."""
    ownership = Ownership()
    remembered = Remembered((), ownership=ownership, ask=lambda: None)
    ownership.assigned([KEPT, GIVEN_UP])
    remembered.note({KEPT: 7, GIVEN_UP: 9})
    ownership.given_up([GIVEN_UP])
    remembered.settle(ownership.owned)
    # Closing the consumer releases the rest.
    ownership.given_up([KEPT])
    return remembered


def test_only_partitions_that_were_owned_until_the_drain_are_final() -> None:
    found = {(one.topic, one.partition): (one.offset, one.is_final) for one in drained().seen(is_final=True)}
    assert found == {KEPT: (7, True), GIVEN_UP: (9, False)}


def test_nothing_is_final_while_the_attempt_has_not_drained() -> None:
    assert not any(one.is_final for one in drained().seen(is_final=False))
