"""Views of a migration in the middle of its first bounce, to be changed by tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from app.core.runs.client_id import TaskName
from app.core.runs.instance import InstanceState
from app.core.runs.mode import Mode
from app.products.migrations.look import (
    GroupNow,
    IdNow,
    Incarnation,
    InstanceNow,
    MigrationLook,
    MigrationMember,
    PreflightFacts,
    TaskNow,
)
from app.products.migrations.migration import GroupSeen, Migration, Stage

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def held(name: str, epoch: int) -> Incarnation:
    return Incarnation(name, 7, epoch)


def instance(ordinal: int, mode: Mode = Mode.GENERATION, **fields: Any) -> InstanceNow:
    return replace(InstanceNow(ordinal=ordinal, lease=2, mode=mode, target=mode, state=InstanceState.RUNNING), **fields)


def task(ordinal: int, *holds: Incarnation, mode: Mode = Mode.GENERATION, **fields: Any) -> TaskNow:
    made = TaskNow(
        ordinal=ordinal,
        lease=2,
        task=0,
        attempt=0,
        host=f"w{ordinal}",
        pid=40 + ordinal,
        mode=mode,
        is_live=True,
        heard_at=NOW,
        holds=holds,
        generation=-1 if mode is Mode.GROUP_ONLY else 3,
        member_id=f"m{ordinal}",
    )
    return replace(made, **fields)


def member(ordinal: int, **fields: Any) -> MigrationMember:
    made = MigrationMember(
        member_id=f"m{ordinal}",
        client_id=f"fenceline-flights-{ordinal}-0-l2-a0",
        host=f"/10.0.0.{ordinal}",
        task=TaskName(ordinal=ordinal, task=0, lease=2, attempt=0),
        mode=Mode.GENERATION,
    )
    return replace(made, **fields)


def group(**fields: Any) -> GroupNow:
    return replace(GroupNow(state="Stable", generation=3, members=(member(0), member(1)), asked_at=NOW), **fields)


def look(**fields: Any) -> MigrationLook:
    """Both instances are moved, and each holds the id of its partition at epoch 3."""
    made = MigrationLook(
        at=NOW,
        read_at=NOW,
        ids={"p0": IdNow(producer_id=7, producer_epoch=3), "p1": IdNow(producer_id=7, producer_epoch=3)},
        partitions={"in-0": "p0", "in-1": "p1"},
        task_ids=("t0", "t1"),
        instances=(instance(0), instance(1)),
        tasks=(task(0, held("p0", 3)), task(1, held("p1", 3))),
        ordinals=2,
        tasks_per_instance=1,
        changed_at=at(-10),
        group=group(),
        preflight=PreflightFacts(
            versions={"1": (4, 3)}, rights_refused=(), transaction_timeout_ms=10_000, abort_sweep_ms=10_000
        ),
    )
    return replace(made, **fields)


def migration(stage: Stage = Stage.FIRST_BOUNCE, **fields: Any) -> Migration:
    made = Migration(
        id="m",
        pipeline="flights",
        run_id="r",
        cluster="c",
        group="g",
        goal=Mode.V2,
        stage=stage,
        stage_since=at(-60),
        state_since=at(-60),
        started_at=at(-60),
        started_by="otto",
        offsets={"in-0": 1},
        group_seen=GroupSeen(group=group(), since=at(-60), at=NOW),
    )
    return replace(made, **fields)
