"""That nothing hangs is said where all were asked, and not long ago, and nowhere else."""

from __future__ import annotations

import msgspec
import pytest

from app.core.hanging.report import OVERDUE_AFTER_MS, SearchReport

SWEPT = SearchReport(cluster="c", sweep_every_ms=5_000, swept_ms=1_000_000, sweep_took_ms=200)
OVERDUE = SWEPT.swept_ms + SWEPT.sweep_every_ms + 2 * SWEPT.sweep_took_ms + OVERDUE_AFTER_MS


def test_what_was_not_asked_yet_is_not_well() -> None:
    assert "not all partitions have been asked about yet" in SearchReport(cluster="c").warning(OVERDUE)
    away = SearchReport(cluster="c", problem="no broker answers")
    assert away.warning(OVERDUE).endswith("for now: no broker answers.")
    assert SWEPT.warning(SWEPT.swept_ms) == ""


def test_sweep_that_hangs_without_a_word_is_told() -> None:
    assert SWEPT.warning(OVERDUE - 1) == ""
    assert SWEPT.warning(OVERDUE).startswith(
        "Hanging transactions are not searched for now: all partitions were asked about last 65 s ago"
    )


@pytest.mark.parametrize("slow", [{"sweep_every_ms": 3_600_000}, {"sweep_took_ms": 120_000}], ids=["rare", "long"])
def test_sweep_that_is_rare_or_long_is_not_overdue_for_that(slow: dict[str, int]) -> None:
    assert msgspec.structs.replace(SWEPT, **slow).problem_at(OVERDUE) == ""


def test_problem_that_the_search_tells_stays() -> None:
    assert msgspec.structs.replace(SWEPT, problem="no broker answers").problem_at(OVERDUE) == "no broker answers"
