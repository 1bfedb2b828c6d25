"""A complete and recent search reports no hanging transactions; another one reports its limits."""

from __future__ import annotations

import msgspec
import pytest

from app.core.hanging.report import OVERDUE_AFTER_MS, SearchReport

SWEPT = SearchReport(cluster="c", sweep_every_ms=5_000, swept_ms=1_000_000, sweep_took_ms=200)
OVERDUE = SWEPT.swept_ms + SWEPT.sweep_every_ms + 2 * SWEPT.sweep_took_ms + OVERDUE_AFTER_MS


def test_first_sweep_in_progress_is_reported() -> None:
    assert "has not checked all partitions yet" in SearchReport(cluster="c").warning(OVERDUE)
    away = SearchReport(cluster="c", problem="no broker answers")
    assert away.warning(OVERDUE).endswith("does not work: no broker answers.")
    assert SWEPT.warning(SWEPT.swept_ms) == ""


def test_sweep_without_an_end_is_reported() -> None:
    assert SWEPT.warning(OVERDUE - 1) == ""
    assert SWEPT.warning(OVERDUE).startswith(
        "The search for hanging transactions does not work: the last sweep of all partitions ended 65 s ago"
    )


@pytest.mark.parametrize("slow", [{"sweep_every_ms": 3_600_000}, {"sweep_took_ms": 120_000}], ids=["rare", "long"])
def test_sweep_that_is_rare_or_long_is_not_overdue_for_that(slow: dict[str, int]) -> None:
    assert msgspec.structs.replace(SWEPT, **slow).problem_at(OVERDUE) == ""


def test_problem_of_the_search_is_kept() -> None:
    assert msgspec.structs.replace(SWEPT, problem="no broker answers").problem_at(OVERDUE) == "no broker answers"
