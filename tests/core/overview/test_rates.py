"""A pipeline's rates per second, as far as they are reported: a missing report is not a zero."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from app.core.overview.service import FRESH_FOR, NOTHING_RUNS, Rates, rates_of, sum_of
from app.core.runs.task import TaskRates, TaskStatus
from tests.support.page_samples import NOW, task

HEARD = task(0)
UNKNOWN = Rates()


def silent(status: TaskStatus) -> TaskStatus:
    return msgspec.structs.replace(status, received_at=NOW - FRESH_FOR - timedelta(milliseconds=1))


def reading(records_in_per_s: float | None) -> Rates:
    return Rates(records_in_per_s=records_in_per_s)


def test_rates_are_summed_over_the_tasks_with_heartbeats() -> None:
    assert HEARD.rates.records_in_per_s
    assert rates_of([HEARD, HEARD, silent(HEARD)], now=NOW).records_in_per_s == 2 * HEARD.rates.records_in_per_s


@pytest.mark.parametrize("tasks", [(), (silent(HEARD), silent(HEARD))], ids=["no task", "silent tasks"])
def test_unreported_rates_are_not_known(tasks: tuple[TaskStatus, ...]) -> None:
    assert rates_of(tasks, now=NOW) == UNKNOWN


def test_first_heartbeat_has_no_rate_yet() -> None:
    first = msgspec.structs.replace(HEARD, rates=TaskRates())
    assert rates_of([first], now=NOW).records_in_per_s is None
    assert rates_of([first, HEARD], now=NOW).records_in_per_s == HEARD.rates.records_in_per_s


@pytest.mark.parametrize(
    ("pipelines", "all_of_them"),
    [
        ((0.0, 0.0), 0.0),
        ((3.0, 4.0, 0.0), 7.0),
        ((3.0, None), 3.0),
        ((0.0, None), None),
        ((None,), None),
    ],
)
def test_pipeline_without_heartbeats_is_not_summed_as_zero(
    pipelines: tuple[float | None, ...], all_of_them: float | None
) -> None:
    assert sum_of([reading(one) for one in pipelines]).records_in_per_s == all_of_them


def test_without_a_pipeline_nothing_runs() -> None:
    assert sum_of([]) == NOTHING_RUNS
