"""The tables of docs/migration.md match the gates, and every condition is judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.core.runs.mode import Mode
from app.products.migrations.clause import Clause
from app.products.migrations.gates import GATES
from app.products.migrations.migration import Stage

DOCUMENT = Path(__file__).parents[3] / "docs/migration.md"
_SHOWN: Sequence[tuple[Stage, Mode, str]] = (
    (Stage.PREFLIGHT, Mode.V2, "preflight"),
    (Stage.FIRST_BOUNCE, Mode.V2, "first bounce"),
    (Stage.SECOND_BOUNCE, Mode.V2, "second bounce"),
    (Stage.BACK_TO_GENERATION, Mode.GENERATION, "back to generation"),
    (Stage.BACK_TO_GENERATION, Mode.GROUP_ONLY, "back to generation, on the way to group_only"),
    (Stage.BACK_TO_GROUP_ONLY, Mode.GROUP_ONLY, "back to group_only"),
    (Stage.VERIFY, Mode.V2, "verify"),
)


def gates_table() -> str:
    rows = ["| stage | checks |", "|---|---|"]
    for stage, goal, words in _SHOWN:
        rows.append(f"| {words} | {', '.join(f'`{one.name}`' for one in GATES.stages[stage, goal])} |")
    return "\n".join(rows)


def clauses_table() -> str:
    """List each condition once: stages share them."""
    clauses = [one for stage, goal, _ in _SHOWN for one in GATES.stages[stage, goal]]
    rows = [f"| `{one.name}` | {one.asks} | {_otherwise(one)} |" for one in clauses]
    assert len(set(rows)) == len({one.name for one in clauses})
    return "\n".join(["| check | required | otherwise |", "|---|---|---|", *dict.fromkeys(rows)])


def steps_table() -> str:
    rows = ["| step | check | required |", "|---|---|---|"]
    rows += [f"| {kind} | `{one.name}` | {one.asks} |" for kind, gate in GATES.after.items() for one in gate]
    return "\n".join(rows)


def _otherwise(clause: Clause) -> str:
    if clause.remedy is not None:
        return f"a {clause.remedy} begins"
    return "waits; waivable" if clause.is_waivable else "waits"


def test_the_tables_are_those_of_the_gates() -> None:
    written = DOCUMENT.read_text("utf-8")
    assert gates_table() in written, gates_table()
    assert clauses_table() in written, clauses_table()
    assert steps_table() in written, steps_table()


def test_every_gate_that_a_migration_can_come_to_is_shown() -> None:
    shown = {stage for stage, _, _ in _SHOWN}
    assert shown == set(Stage)
    assert all(GATES.stages[Stage.VERIFY, goal] == GATES.stages[Stage.VERIFY, Mode.V2] for goal in Mode)
