"""`fenceline migrate`: the output of plans and migrations, and its options."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from rich.console import Console, RenderableType

from app.core.runs.mode import Mode
from app.kit.cli.errors import CommandError
from app.products.migrations import cli as migrations
from app.products.migrations.decision import judged
from app.products.migrations.migration import MigrationState, MigrationStep, MigrationStepKind, StepState
from app.products.migrations.plan import planned
from tests.products.migrations.looks import NOW, instance, look, migration
from tests.support.fixtures import Fenceline, json_of
from tests.support.serving import Serving

A, B, C = Mode


def written(shown: RenderableType) -> str:
    console = Console(file=StringIO(), width=250)
    with console.capture() as said:
        console.print(shown)
    return " ".join(said.get().split())


def shown(item: dict[str, Any]) -> str:
    return written(migrations._shown(item))  # pyright: ignore[reportPrivateUsage] - what `status` writes


def test_a_plan_shows_the_preflight_and_each_step_with_its_time_and_rollback() -> None:
    steps = planned({0: A, 1: A}, C, partition_ids=4, task_ids=2)
    item = {
        "pipeline": "flights",
        "goal": "v2",
        "usually_s": sum(one.usually_s or 0 for one in steps),
        "measured": False,
        "preflight": [to_builtins(one) for one in judged(migration(), look(read_at=None))],
        "steps": [to_builtins(one) for one in steps],
    }
    text = written(migrations._plan(item))  # pyright: ignore[reportPrivateUsage] - what `plan` writes
    assert "flights to v2: usually 3.4 min and an audit; not measured in this pipeline yet" in text
    assert "? unknown seen since `__transaction_state` has not been read" in text
    assert "first bounce bounce instance 0 from group_only to generation 50 s To group_only" in text
    assert "fence and archive 4 ids of partitions" in text


def test_a_migration_shows_the_missing_conditions_its_steps_and_the_rollback() -> None:
    step = MigrationStep(
        number=1,
        stage=migration().stage,
        kind=MigrationStepKind.BOUNCE,
        began_at=NOW,
        ended_at=NOW + timedelta(seconds=31),
        state=StepState.DONE,
        ordinal=0,
        lease=1,
        to=B,
    )
    stopped = replace(
        migration(steps=(step,)), state=MigrationState.STOPPED, missing="members known: one is none of ours"
    )
    gate = judged(stopped, look(instances=(instance(0), instance(1, A))))
    text = shown(
        {
            **to_builtins(stopped),
            "gate": [to_builtins(one) for one in gate],
            "alarms": [{"sentence": "task 1.0 of lease 1, which is over, was heard again"}],
        }
    )
    for said in (
        "flights to v2 stopped first bounce since",
        "alert: task 1.0 of lease 1, which is over, was heard again",
        "missing: members known: one is none of ours",
        "✔ proven seen since",
        "… missing none group only instance 1 (lease 2) is group_only, or on its way there",
        "1 first bounce bounce instance 0 to generation done",
        "31 s",
        "rollback: To group_only",
    ):
        assert said in text, text


def test_waiving_requires_a_reason() -> None:
    waived = migrations._waived  # pyright: ignore[reportPrivateUsage] - how `--waive` is read
    assert waived("audited=no plan = no audit") == ("audited", "no plan = no audit")
    for text in ("audited", "audited="):
        with pytest.raises(CommandError, match="CHECK=REASON"):
            waived(text)


@pytest.mark.slow
def test_a_pipeline_without_a_migration_says_what_to_do_first(fenceline: Fenceline, served: Serving) -> None:
    del served
    nothing = fenceline("migrate", "status", "nobody")
    assert nothing.returncode != 0
    assert json_of(fenceline("migrate", "list", "--json")) == []
    assert "No migration yet: fenceline migrate plan PIPELINE" in fenceline("migrate", "list").stdout
