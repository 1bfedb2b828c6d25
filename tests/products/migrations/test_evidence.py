"""The evidence that each condition accepts and rejects."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.runs.instance import InstanceState
from app.core.runs.mode import Mode
from app.products.migrations import evidence
from app.products.migrations.judged import ClauseStanding
from app.products.migrations.look import AuditNow, Held, IdNow, MigrationMember
from app.products.migrations.migration import FencedId, GroupSeen, MigrationStep, MigrationStepKind
from tests.products.migrations.looks import NOW, at, group, held, instance, look, member, migration, task

OPEN, CLOSED, UNKNOWN = ClauseStanding.OPEN, ClauseStanding.CLOSED, ClauseStanding.UNKNOWN
BOUNCE = MigrationStep(
    number=1,
    stage=migration().stage,
    kind=MigrationStepKind.BOUNCE,
    began_at=NOW,
    ordinal=0,
    lease=1,
    to=Mode.GENERATION,
)


def fenced(name: str, epoch: int, *, seconds: float = -5) -> FencedId:
    return FencedId(incarnation=held(name, epoch), at=at(seconds), step=1)


def test_an_id_is_taken_over_when_the_newest_incarnation_is_of_a_live_task_that_sends_its_generation() -> None:
    assert evidence.ids_taken_over(migration(), look()).standing is OPEN


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"ids": {"p0": IdNow(producer_id=7, producer_epoch=4)}}, "in-0: no live task holds p0 at"),
        ({"ids": {"p0": IdNow(producer_id=8, producer_epoch=3)}}, "in-0: no live task holds p0 at"),
        ({"tasks": (task(0, held("p0", 3), is_live=False), task(1, held("p1", 3)))}, "in-0: no live task"),
        (
            {"tasks": (task(0, held("p0", 3), mode=Mode.GROUP_ONLY), task(1, held("p1", 3)))},
            "is held by task 0.0, which is group_only",
        ),
        (
            {"tasks": (task(0, held("p0", 3), generation=-1), task(1, held("p1", 3)))},
            "task 0.0 holds p0 at producer 7, epoch 3, and reports no generation of its offsets",
        ),
    ],
    ids=["a newer epoch", "another producer", "a silent task", "a task without a generation", "one that sends none"],
)
def test_an_id_is_not_taken_over_by(changed: dict[str, object], sentence: str) -> None:
    found = evidence.ids_taken_over(migration(), look(**changed))
    assert found.standing is CLOSED
    assert sentence in found.seen


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"ids": {"p0": IdNow(producer_id=7, producer_epoch=4)}}, "in-0: no live task holds p0 at"),
        ({"tasks": (task(0, held("p0", 3), is_live=False), task(1, held("p1", 3)))}, "in-0: no live task"),
    ],
    ids=["a newer epoch", "a silent task"],
)
def test_an_id_is_held_by_a_live_task_at_its_newest_epoch_only(changed: dict[str, object], sentence: str) -> None:
    assert evidence.ids_held(migration(), look()).standing is OPEN
    sends_none = look(tasks=(task(0, held("p0", 3), generation=-1), task(1, held("p1", 3))))
    assert evidence.ids_held(migration(), sends_none).standing is OPEN
    found = evidence.ids_held(migration(), look(**changed))
    assert found.standing is CLOSED
    assert sentence in found.seen


def test_an_id_is_taken_over_by_the_servers_fence_while_no_client_came_after_it() -> None:
    nobody = look(ids={"p0": IdNow(producer_id=7, producer_epoch=4)}, partitions={"in-0": "p0"})
    assert evidence.ids_taken_over(migration(fenced=(fenced("p0", 4),)), nobody).standing is OPEN
    assert evidence.ids_taken_over(migration(fenced=(fenced("p0", 3),)), nobody).standing is CLOSED
    assert evidence.ids_held(migration(fenced=(fenced("p0", 4),)), nobody).standing is OPEN
    assert evidence.ids_held(migration(fenced=(fenced("p0", 3),)), nobody).standing is CLOSED


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        (member(0, member_id="m9", client_id="fenceline-flights-0-0-l1-a0"), "and no live task of a current lease"),
        (member(0, member_id="m9", task=None, client_id="console"), "console on /10.0.0.0 is a member, and no task of"),
    ],
    ids=["of a lease that is over, or of a run before", "a stranger"],
)
def test_a_member_that_is_no_live_task_of_a_current_lease_keeps_the_gate_shut(
    one: MigrationMember, sentence: str
) -> None:
    found = evidence.members_known(migration(), look(group=group(members=(one, member(1)))))
    assert found.standing is CLOSED
    assert sentence in found.seen


def test_a_member_without_heartbeats_or_against_its_lease_keeps_the_gate_closed() -> None:
    assert evidence.members_known(migration(), look()).standing is OPEN
    assert evidence.members_known(migration(), look(group=None)).standing is UNKNOWN
    assert evidence.members_known(migration(), look(group=group(asked_at=at(-11)))).standing is UNKNOWN
    for one in (task(0, generation=-1), task(0, is_live=False)):
        assert evidence.members_known(migration(), look(tasks=(one, task(1)))).standing is CLOSED


def test_a_group_is_stable_when_checks_of_some_seconds_agree() -> None:
    """A classic group that rebalances constantly is Stable between two rebalances."""
    seen = GroupSeen(group=group(), since=at(-60), at=at(-1))
    assert evidence.group_is_stable(migration(group_seen=seen.after(group(), at=NOW)), look()).standing is OPEN
    moved = group(generation=4)
    found = evidence.group_is_stable(migration(group_seen=seen.after(moved, at=NOW)), look(group=moved))
    assert (found.standing, found.seen) == (CLOSED, "generation 4 with 2 members for 0 s of 5 s")
    joined = group(members=(member(0), member(1), member(2)))
    assert (
        evidence.group_is_stable(migration(group_seen=seen.after(joined, at=NOW)), look(group=joined)).standing
        is CLOSED
    )
    assert evidence.group_is_stable(migration(group_seen=None), look()).standing is UNKNOWN
    between = seen.after(group(state="PreparingRebalance"), at=at(-1)).after(group(), at=NOW)
    assert between.since == NOW, "what was not stable in between begins anew"


def test_a_refused_fence_says_what_its_coordinator_answered() -> None:
    step = MigrationStep(
        number=1, stage=migration().stage, kind=MigrationStepKind.FENCE, began_at=NOW, ids=("p0", "p1")
    )
    found = evidence.step_fenced(migration(), look(refused_fences={"p0": "not authorized"}), step)
    assert (found.standing, found.seen) == (CLOSED, "p0 is not fenced: not authorized; p1 is not fenced")


def test_without_the_journal_nothing_is_known() -> None:
    unread = look(read_at=None)
    assert evidence.ids_taken_over(migration(), unread).standing is UNKNOWN
    assert evidence.seen_since(migration(), unread).standing is UNKNOWN
    assert evidence.ids_fenced(migration(), unread, ["p0"]).standing is UNKNOWN
    assert evidence.ids_held(migration(), unread).standing is UNKNOWN
    assert evidence.drained(migration(), unread, BOUNCE).standing is UNKNOWN


def test_reads_and_heartbeats_before_the_newest_end_of_a_lease_are_no_evidence() -> None:
    assert evidence.seen_since(migration(), look()).standing is OPEN
    assert evidence.seen_since(migration(), look(read_at=at(-11))).standing is UNKNOWN
    tasks = (task(0, heard_at=at(-11)), task(1))
    assert "task 0.0 sent no heartbeat since then" in evidence.seen_since(migration(), look(tasks=tasks)).seen


def test_an_instance_on_its_way_to_a_mode_counts_as_being_in_it() -> None:
    leaving = look(instances=(instance(0), instance(1, target=Mode.V2)))
    assert evidence.no_instance_in(Mode.V2, leaving).standing is CLOSED
    assert evidence.all_instances_in(Mode.GENERATION, leaving).standing is CLOSED
    assert evidence.all_instances_in(Mode.GENERATION, look()).standing is OPEN
    assert evidence.all_instances_in(Mode.GENERATION, look(ordinals=3)).standing is CLOSED


def test_a_fence_is_evidence_only_when_the_journal_was_read_after_it_and_nothing_came_after_it() -> None:
    there = look(ids={"p0": IdNow(producer_id=7, producer_epoch=4)})
    mine = migration(fenced=(fenced("p0", 4),))
    assert evidence.ids_fenced(mine, there, ["p0", "never used"]).standing is OPEN
    assert evidence.ids_fenced(mine, replace(there, read_at=at(-6)), ["p0"]).standing is UNKNOWN
    assert evidence.ids_fenced(migration(), there, ["p0"]).standing is CLOSED
    later = look(ids={"p0": IdNow(producer_id=7, producer_epoch=5)})
    assert evidence.ids_fenced(mine, later, ["p0"]).standing is CLOSED


@pytest.mark.parametrize(
    ("now", "standing"),
    [
        (IdNow(producer_id=7, producer_epoch=2), OPEN),
        (IdNow(producer_id=7, producer_epoch=2, is_open=True), CLOSED),
        (IdNow(producer_id=7, producer_epoch=3, is_open=True), OPEN),
        (IdNow(producer_id=7, producer_epoch=3, was_aborted=True), OPEN),
        (IdNow(producer_id=7, producer_epoch=4), OPEN),
        (IdNow(producer_id=7, producer_epoch=4, is_open=True), CLOSED),
        (None, OPEN),
    ],
    ids=[
        "idle",
        "open",
        "a live task's",
        "ended by its timeout",
        "idle, of nobody known",
        "open, of nobody known",
        "forgotten",
    ],
)
def test_the_ids_of_a_lease_are_drained_when_none_is_open(now: IdNow | None, standing: ClauseStanding) -> None:
    left = migration(held=(Held(ordinal=0, lease=1, mode=Mode.GROUP_ONLY, ids=(held("p0", 2),)),))
    found = evidence.drained(left, look(ids={} if now is None else {"p0": now}), BOUNCE)
    assert found.standing is standing, found.seen


def test_a_bounce_has_moved_an_instance_when_its_next_lease_runs_in_the_mode_with_all_of_its_tasks() -> None:
    assert evidence.moved(migration(), look(), BOUNCE).standing is OPEN
    for one in (instance(0, lease=1), instance(0, mode=Mode.GROUP_ONLY), instance(0, state=InstanceState.STARTING)):
        assert evidence.moved(migration(), look(instances=(one, instance(1))), BOUNCE).standing is CLOSED
    assert evidence.moved(migration(), look(tasks=(task(0, is_live=False),)), BOUNCE).standing is CLOSED


def test_the_newer_incarnation_that_a_lease_reported_is_kept() -> None:
    known = Held(ordinal=0, lease=1, mode=Mode.GENERATION, ids=(held("p0", 3), held("p1", 1)))
    assert known.with_heard((held("p0", 2), held("p1", 4), held("p2", 0))).ids == (
        held("p0", 3),
        held("p1", 4),
        held("p2", 0),
    )


@pytest.mark.parametrize(
    ("audit", "standing"),
    [
        (None, UNKNOWN),
        (AuditNow(audit_id="", is_through=True, problem="no plan"), UNKNOWN),
        (AuditNow(audit_id="a", is_through=False), UNKNOWN),
        (AuditNow(audit_id="a", is_through=True, lost=1, expected=9), CLOSED),
        (AuditNow(audit_id="a", is_through=True, expected=0), UNKNOWN),
        (AuditNow(audit_id="a", is_through=True, expected=9), OPEN),
    ],
)
def test_only_an_audit_that_counted_all_and_found_nothing_is_evidence(
    audit: AuditNow | None, standing: ClauseStanding
) -> None:
    assert evidence.audited(migration(), look(audit=audit)).standing is standing
