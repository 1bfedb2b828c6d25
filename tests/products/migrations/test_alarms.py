"""A retired id in use, or a member of an older stage, is reported with host and process."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.runs.client_id import TaskName
from app.core.runs.mode import Mode
from app.products.migrations.alarms import AlarmKind, alarms_of
from app.products.migrations.look import IdNow, MigrationLook, Stray
from app.products.migrations.migration import FencedId, Migration, MigrationStep, MigrationStepKind, Stage, StepState
from tests.products.migrations.looks import NOW, at, group, held, look, member, migration, task

FENCED = (FencedId(incarnation=held("p0", 4), at=at(-30), step=5),)
GIVEN_UP = MigrationStep(
    number=5,
    stage=Stage.SECOND_BOUNCE,
    kind=MigrationStepKind.FENCE,
    state=StepState.DONE,
    began_at=at(-31),
    ids=("p0",),
)


def done(**fields: object) -> Migration:
    return replace(migration(Stage.VERIFY, fenced=FENCED, steps=(GIVEN_UP,)), **fields)


def lives(epoch: int = 5, **fields: object) -> MigrationLook:
    return replace(look(ids={"p0": IdNow(producer_id=7, producer_epoch=epoch)}), **fields)


def test_a_retired_id_in_use_is_reported_with_the_task_that_holds_it() -> None:
    (alarm,) = alarms_of(done(), lives(tasks=(task(1, held("p0", 5)),)))
    assert (alarm.kind, alarm.host, alarm.pid) == (AlarmKind.GIVEN_UP_ID_LIVES, "w1", 41)
    assert alarm.sentence.startswith("retired id p0 is in use: fenced at epoch 4, now at")
    (unknown,) = alarms_of(done(), lives(tasks=()))
    assert (unknown.host, unknown.pid) == (None, None)


def test_our_own_fence_a_journal_of_before_it_and_an_earlier_stage_are_no_alarm() -> None:
    assert alarms_of(done(), lives(4)) == []
    assert alarms_of(done(), lives(read_at=at(-31))) == []
    assert alarms_of(migration(Stage.FIRST_BOUNCE, fenced=FENCED), lives()) == []
    assert alarms_of(done(goal=Mode.GROUP_ONLY), lives()) == [], "on the way back these ids are in use again"


def test_an_id_fenced_on_request_in_the_first_bounce_is_not_retired() -> None:
    """A task that sends its generation may get its partition before all are v2, and initialises it."""
    by_hand = replace(GIVEN_UP, stage=Stage.FIRST_BOUNCE, by="otto")
    assert alarms_of(migration(Stage.SECOND_BOUNCE, fenced=FENCED, steps=(by_hand,)), lives()) == []
    assert alarms_of(migration(Stage.SECOND_BOUNCE, fenced=FENCED, steps=(GIVEN_UP,)), lives()) != []


def test_a_fence_by_hand_of_a_retired_id_is_no_sign_of_life() -> None:
    assert alarms_of(done(), lives(fenced_by_hand=frozenset({held("p0", 5)}))) == []
    assert alarms_of(done(), lives(6, fenced_by_hand=frozenset({held("p0", 5)}))) != []


def test_a_member_of_an_ended_lease_without_heartbeats_is_an_alarm() -> None:
    awake = member(1, member_id="m9", task=TaskName(ordinal=1, task=0, lease=1, attempt=0), mode=Mode.GROUP_ONLY)
    seen = look(group=group(members=(member(0), awake)))
    (alarm,) = alarms_of(migration(Stage.SECOND_BOUNCE), seen)
    assert (alarm.kind, alarm.host) == (AlarmKind.OLDER_MEMBER, "/10.0.0.1")
    assert alarms_of(migration(Stage.FIRST_BOUNCE), seen) == []


@pytest.mark.parametrize(
    ("stage", "goal", "mode", "is_alarm"),
    [
        (Stage.FIRST_BOUNCE, Mode.V2, Mode.GROUP_ONLY, False),
        (Stage.SECOND_BOUNCE, Mode.V2, Mode.GROUP_ONLY, True),
        (Stage.SECOND_BOUNCE, Mode.V2, Mode.GENERATION, False),
        (Stage.VERIFY, Mode.V2, Mode.GENERATION, True),
        (Stage.BACK_TO_GENERATION, Mode.GROUP_ONLY, Mode.V2, False),
        (Stage.BACK_TO_GROUP_ONLY, Mode.GROUP_ONLY, Mode.V2, True),
        (Stage.VERIFY, Mode.GROUP_ONLY, Mode.V2, True),
    ],
)
def test_a_task_of_a_lease_that_is_over_is_an_alarm_in_a_stage_that_left_its_mode(
    stage: Stage, goal: Mode, mode: Mode, *, is_alarm: bool
) -> None:
    stray = Stray(ordinal=1, lease=1, task=0, attempt=2, mode=mode, host="w9", pid=99, heard_at=NOW)
    found = alarms_of(migration(stage, goal=goal), look(strays=(stray,)))
    assert [(one.kind, one.host, one.pid) for one in found] == (
        [(AlarmKind.OLDER_MEMBER, "w9", 99)] if is_alarm else []
    )
    before = replace(stray, heard_at=at(-100))
    assert alarms_of(migration(stage, goal=goal), look(strays=(before,))) == []
