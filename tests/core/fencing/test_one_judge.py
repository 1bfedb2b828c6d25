"""The cause of a fencing event is decided in one place, as docs/architecture.md states."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
JUDGES = {"epoch_verdict.py", "membership_verdict.py", "marker_verdict.py"}
# A row of a newer release is shown as it is, and never changed.
SHOWN_AS_IT_IS = {"store.py"}


def calls_of(name: str) -> set[str]:
    """Return the files of app and workers that call `name`."""
    return {file for file, called in all_calls().items() if name in called}


@cache
def all_calls() -> dict[str, set[str]]:
    files = [path for place in ("app", "workers") for path in (ROOT / place).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): called_in(path) for path in files}


def called_in(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def test_a_verdict_is_made_by_the_judges_only() -> None:
    allowed = {f"app/core/fencing/{name}" for name in JUDGES | SHOWN_AS_IT_IS}
    assert calls_of("FencingVerdict") == allowed


@pytest.mark.parametrize("judge", ["judge_epoch", "judge_membership", "judge_marker"])
def test_a_judge_is_asked_by_the_cause_only(judge: str) -> None:
    assert calls_of(judge) == set()
    named = [path for path in (ROOT / "app").rglob("*.py") if judge in path.read_text("utf-8")]
    assert {path.name for path in named if path.name not in JUDGES} == {"cause.py"}


def test_cases_become_events_where_they_are_kept_and_where_a_journal_is_read_directly() -> None:
    assert calls_of("judge_case") == {"app/core/fencing/service/events.py", "app/products/direct/fencing.py"}
