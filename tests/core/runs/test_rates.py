"""Rates of a task that commits often, and of one that commits less often than its heartbeats."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from app.core.runs.rates import rates_between
from app.core.runs.task import Counters, TaskRates, TaskReport, TaskState, TaskStatus

NOW = datetime(2026, 11, 24, tzinfo=UTC)
EVERY_MS = 30_000
NO_RATES = TaskRates()


def report(
    *,
    at_ms: int,
    attempt: int = 0,
    lease: int = 1,
    state: TaskState = TaskState.RUNNING,
    every_ms: int | None = 100,
    uploads_ms: int | None = None,
    **counters: Any,
) -> TaskReport:
    return TaskReport(
        run_id="r",
        ordinal=0,
        lease=lease,
        task=0,
        attempt=attempt,
        sequence=at_ms,
        sent_at_ms=at_ms,
        host="h",
        pid=1,
        state=state,
        counters=Counters(**counters),
        commits_every_ms=every_ms,
        uploads_within_ms=uploads_ms,
    )


def status(last: TaskReport, rates: TaskRates = NO_RATES) -> TaskStatus:
    return TaskStatus(last=last, received_at=NOW, state_since=NOW, rates=rates)


def rates_of(*reports: TaskReport) -> list[TaskRates]:
    """After each of them, as the server keeps them."""
    found: list[TaskRates] = []
    before: TaskStatus | None = None
    for one in reports:
        # As they come back from the database.
        found.append(msgspec.convert(msgspec.to_builtins(rates_between(before, one)), TaskRates))
        before = status(one, found[-1])
    return found


def filling(*, commits: dict[int, int], seconds: int, idle_from: int | None = None) -> list[TaskReport]:
    """A heartbeat each second; commits: at which second so many records are committed."""
    reports: list[TaskReport] = []
    records = ends = 0
    for second in range(seconds):
        if second in commits:
            records += commits[second]
            ends += 1
        reports.append(
            report(
                at_ms=second * 1000,
                every_ms=EVERY_MS,
                records_in=records,
                transactions_committed=ends,
                # Changes that have nothing to do with an end, and must not count as one.
                events_dropped=second // 7,
            )
        )
    return reports


@pytest.mark.parametrize("every_ms", [None, 100, 1_000], ids=["older worker", "often", "each second"])
def test_rates_are_per_second_between_two_reports(every_ms: int | None) -> None:
    rates = rates_between(
        status(report(at_ms=1000, records_in=10, bytes_out=0)),
        report(at_ms=1500, records_in=20, bytes_out=6, every_ms=every_ms),
    )
    assert (rates.records_in_per_s, rates.bytes_out_per_s, rates.aborts_per_s) == (20, 12, 0)
    assert rates.over_ms == 500
    assert rates.since is None


@pytest.mark.parametrize("every_ms", [100, EVERY_MS])
@pytest.mark.parametrize(
    "before",
    [
        None,
        report(at_ms=2000),
        report(at_ms=3000),
        report(at_ms=1000, attempt=1),
        report(at_ms=1000, lease=2),
    ],
    ids=["the first", "no time passed", "time went back", "another attempt", "another lease"],
)
def test_without_two_reports_of_one_attempt_there_is_no_rate(before: TaskReport | None, every_ms: int) -> None:
    found = rates_between(
        None if before is None else status(before), report(at_ms=2000, records_in=5, every_ms=every_ms)
    )
    assert msgspec.structs.replace(found, since=None) == TaskRates()


def test_rates_of_a_task_with_rare_commits_are_from_commit_to_commit() -> None:
    found = rates_of(*filling(commits={31: 3_100, 62: 6_200, 93: 3_100}, seconds=100))
    assert {one.records_in_per_s for one in found[:31]} == {None}
    assert {one.records_in_per_s for one in found[31:62]} == {100.0}
    assert {one.records_in_per_s for one in found[62:93]} == {200.0}
    assert {one.records_in_per_s for one in found[93:]} == {100.0}
    assert {one.over_ms for one in found[31:]} == {31_000}
    assert found[50].commits_per_s == pytest.approx(1 / 31)


def test_sum_of_what_is_shown_is_what_was_committed() -> None:
    """The control: rates from heartbeat to heartbeat have this sum too, in one second of thirty."""
    commits = {31: 3_100, 62: 6_200, 93: 3_100, 124: 3_100}
    reports = filling(commits=commits, seconds=156)
    shown = sum(one.records_in_per_s or 0 for one in rates_of(*reports)[31:155])
    assert shown == pytest.approx(sum(commits.values()))
    jumping = [msgspec.structs.replace(one, commits_every_ms=None) for one in reports]
    assert max(one.records_in_per_s or 0 for one in rates_of(*jumping)) == 6_200


def test_without_a_commit_for_two_intervals_they_are_nothing() -> None:
    found = rates_of(*filling(commits={30: 3_000}, seconds=200))
    assert {one.records_in_per_s for one in found[30:91]} == {100.0}
    assert {one.records_in_per_s for one in found[91:]} == {0.0}
    assert {one.commits_per_s for one in found[91:]} == {0.0}


def test_rates_after_an_idle_time_are_of_two_intervals_at_most() -> None:
    found = rates_of(*filling(commits={30: 3_000, 1_000: 600}, seconds=1_002))
    assert found[1_000].records_in_per_s == 10.0
    assert found[1_000].over_ms == 2 * EVERY_MS


@pytest.mark.parametrize("state", [TaskState.PAUSED, TaskState.DRAINED, TaskState.FAILED])
def test_one_that_does_not_run_does_nothing(state: TaskState) -> None:
    reports = filling(commits={30: 3_000}, seconds=33)
    reports.append(msgspec.structs.replace(reports[-1], sent_at_ms=33_000, state=state))
    assert rates_of(*reports)[-1].records_in_per_s == 0


def test_an_aborted_checkpoint_is_an_end_too() -> None:
    first = report(at_ms=0, every_ms=EVERY_MS)
    aborted = report(at_ms=20_000, every_ms=EVERY_MS, transactions_aborted=1)
    rates = rates_of(first, aborted)[-1]
    assert (rates.records_in_per_s, rates.aborts_per_s) == (0, 0.05)


def test_reported_times_never_go_backwards() -> None:
    reports = filling(commits={31: 3_100, 62: 6_200}, seconds=70)
    since = [one.since.at_ms for one in rates_of(*reports) if one.since is not None]
    assert len(since) == 70
    assert all(earlier <= later for earlier, later in pairwise(since))


def test_uploads_that_are_longer_than_the_rotation_are_part_of_the_time() -> None:
    reports = [
        report(
            at_ms=second * 1000,
            every_ms=5_000,
            uploads_ms=60_000,
            records_in=second // 25 * 25_000,
            transactions_committed=second // 25,
        )
        for second in range(120)
    ]
    assert {one.records_in_per_s for one in rates_of(*reports)[25:]} == {1_000.0}
