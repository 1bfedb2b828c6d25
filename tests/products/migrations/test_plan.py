"""A plan matches the gates."""

from __future__ import annotations

import pytest

from app.core.runs.mode import Mode
from app.products.migrations.migration import MigrationStepKind, Stage
from app.products.migrations.plan import WAY_BACK, WHY, planned, stages_to

A, B, C = Mode


def test_forward_every_instance_is_bounced_twice_and_the_old_ids_are_fenced_once() -> None:
    steps = planned({0: A, 1: A, 2: A}, C, partition_ids=6, task_ids=3)
    assert [(one.stage, one.kind) for one in steps] == [
        (Stage.PREFLIGHT, None),
        *[(Stage.FIRST_BOUNCE, MigrationStepKind.BOUNCE)] * 3,
        *[(Stage.SECOND_BOUNCE, MigrationStepKind.BOUNCE)] * 3,
        (Stage.SECOND_BOUNCE, MigrationStepKind.FENCE),
        (Stage.VERIFY, None),
    ]
    assert steps[1].sentence == "bounce instance 0 from group_only to generation"
    assert steps[-2].sentence == "fence and archive 6 ids of partitions"
    assert all(one.way_back for one in steps)


@pytest.mark.parametrize(
    ("modes", "goal", "bounces"),
    [
        ({0: B, 1: A}, C, ["1 from group_only to generation", "0 from generation to v2", "1 from generation to v2"]),
        ({0: C, 1: C}, B, ["0 from v2 to generation", "1 from v2 to generation"]),
        (
            {0: C, 1: B},
            A,
            ["0 from v2 to generation", "0 from generation to group_only", "1 from generation to group_only"],
        ),
    ],
)
def test_only_what_is_not_there_yet_is_moved(modes: dict[int, Mode | None], goal: Mode, bounces: list[str]) -> None:
    steps = planned(modes, goal, partition_ids=2, task_ids=2)
    assert [one.sentence for one in steps if one.kind is MigrationStepKind.BOUNCE] == [
        f"bounce instance {one}" for one in bounces
    ]


def test_every_stage_has_its_reason_and_its_rollback() -> None:
    assert set(WHY) == set(WAY_BACK) == set(Stage)
    assert stages_to(C) == (Stage.PREFLIGHT, Stage.FIRST_BOUNCE, Stage.SECOND_BOUNCE, Stage.VERIFY)
    assert stages_to(A) == (Stage.PREFLIGHT, Stage.BACK_TO_GENERATION, Stage.BACK_TO_GROUP_ONLY, Stage.VERIFY)
