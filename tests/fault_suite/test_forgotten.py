"""The judge of a run whose group's offsets were deleted: a resume at the recorded ones is right, any other is not."""

from __future__ import annotations

import pytest

from tests.fault_suite.decided import UnreadableLogError
from tests.fault_suite.logs_as_written import FIRST, SECOND, World, ids, wrong
from tests.fault_suite.offset_log import Written, checked
from tests.fault_suite.rest import AtRest, Ends
from tests.fault_suite.test_offset_log import DRAINED, told
from tests.support.offset_tellers import assigned, at, committed, given_up


def deleted() -> World:
    """Eight ids; the first three of partition 0 and all of partition 1 are out when the offsets are deleted."""
    world = World()
    world.transaction(FIRST, ids(0, 0, 3), {0: 3})
    world.transaction(SECOND, ids(1, 0, 4), {1: 4})
    world.delete_offsets(0, 1)
    return world


def contradictions(world: World) -> list[str]:
    journal = world.group_journal()
    fine = Ends({}, {})
    return AtRest(fine, fine, {}, {}, journal.untransacted, journal.lost).contradictions()


def test_a_resume_at_the_recorded_offsets_is_exact() -> None:
    world = deleted()
    world.resume({0: 3, 1: 4})
    world.transaction(FIRST, ids(0, 3, 4), {0: 4})
    verdict = world.verdict()
    assert verdict.is_exact, str(verdict)
    assert contradictions(world) == []


def test_a_second_deletion_is_judged_like_the_first() -> None:
    world = deleted()
    world.resume({0: 3, 1: 4})
    world.delete_offsets(0, 1)
    world.resume({0: 3, 1: 4})
    world.transaction(FIRST, ids(0, 3, 4), {0: 4})
    assert world.verdict().is_exact
    assert contradictions(world) == []


def test_a_resume_at_earliest_is_reported_with_its_duplicates() -> None:
    world = deleted()
    world.resume({0: 0, 1: 4})
    world.transaction(FIRST, ids(0, 0, 4), {0: 4})
    verdict = world.verdict()
    assert verdict.duplicated.count == 3
    assert "duplicated" in wrong(verdict)
    outside, anew = contradictions(world)
    assert outside.startswith("1 offsets outside of a transaction, first: partition 0 to 0")
    assert anew.startswith("partition 0 was started as new: its offset 7 was deleted")


def test_a_resume_at_latest_is_reported_with_its_losses() -> None:
    world = deleted()
    world.resume({0: 4, 1: 4})
    verdict = world.verdict()
    assert verdict.lost is not None
    assert verdict.lost.count == 1
    assert contradictions(world) != []


def test_a_group_that_started_as_new_without_a_resume_is_reported() -> None:
    world = deleted()
    world.resume({1: 4})
    world.transaction(FIRST, ids(0, 0, 4), {0: 4})
    assert world.verdict().duplicated.count == 3
    assert contradictions(world) == ["partition 0 was started as new: its offset 7 was deleted and not set again"]


def test_a_partition_that_had_begun_nowhere_needs_no_resume_and_must_not_be_set_back() -> None:
    world = World()
    world.transaction(FIRST, [], {0: 0})
    world.delete_offsets(0)
    world.transaction(FIRST, ids(0, 0, 3), {0: 3})
    assert contradictions(world) == []
    world.resume({0: 0})
    outside, *_ = contradictions(world)
    assert outside.startswith("1 offsets outside of a transaction, first: partition 0 to 0")


def test_one_resume_is_right_after_a_deletion_and_a_second_one_is_not() -> None:
    world = deleted()
    world.resume({0: 3, 1: 4})
    world.resume({0: 3})
    assert [said.split(" at ")[0] for said in world.group_journal().untransacted] == ["partition 0 to 7"]


def test_a_deletion_that_no_fault_has_made_is_refused() -> None:
    world = deleted()
    world.deletions = 0
    with pytest.raises(UnreadableLogError, match="deletes one of the group, and no fault did"):
        world.group_journal()


BEFORE = Written(0, 0, (told(assigned(0, 5), at(1, 0), committed(2, 0, 10), given_up(3)), DRAINED))
RESUMED = [{("in", 0): 10}]


def after(begins: int, *, ended: bool = True) -> Written:
    """An attempt of the new group, whose generations begin again at 1."""
    events = told(assigned(0, 1), at(1, begins), committed(2, begins, 30))
    return Written(0, 1, (events, DRAINED) if ended else (events,), life=1)


def test_the_offset_log_of_a_resume_at_the_recorded_offsets_is_consistent() -> None:
    assert checked([BEFORE, after(10)], group="g", resumed=RESUMED).contradictions == 0
    # The control: compared as one life, generation 1 seems to have come before generation 5.
    in_one_life = after(10)._replace(life=0)
    assert checked([BEFORE, in_one_life], group="g").contradictions == 1


@pytest.mark.parametrize(
    ("begins", "said"),
    [
        (0, "in-0: offsets 0 to 9 were read again after a resume at 10"),
        (20, "in-0: offsets 10 to 19 were skipped after a resume at 10"),
    ],
    ids=["earliest", "latest"],
)
def test_the_offset_log_of_a_resume_elsewhere_is_contradicted(begins: int, said: str) -> None:
    found = checked([BEFORE, after(begins)], group="g", resumed=RESUMED)
    assert (found.contradictions, found.said) == (1, (said,))
    assert said in (found.failure or "")


def test_a_missing_report_of_a_killed_attempt_is_no_contradiction() -> None:
    """It may have begun at the recorded offset, without a report."""
    killed = Written(1, 0, (told(assigned(0, 1), partition=1),), life=1)
    assert checked([BEFORE, after(20), killed], group="g", resumed=RESUMED).contradictions == 0
    assert checked([BEFORE, after(0), killed], group="g", resumed=RESUMED).contradictions == 1


def test_an_attempt_that_is_refused_begins_nowhere() -> None:
    refused = Written(1, 0, (told(assigned(0, 1)), DRAINED), life=1)
    assert checked([BEFORE, refused, after(10)], group="g", resumed=RESUMED).contradictions == 0
