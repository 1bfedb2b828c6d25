"""The figures of a query: rates of rows, the age of the watermark, and a sentence about its state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from app.core.runs.run import DesiredRunState, Run
from app.products.dataframes.batch import QueryBatch, QueryStatus
from app.products.dataframes.summary import REPORTS_WITHIN, QuerySummary, row_rates, summary_of
from app.products.dataframes.wire import QueryState
from tests.support import page_samples as samples
from tests.support.control_plane import definition
from tests.support.queries import NOW, QUERY, QUERY_ID, batch

BATCHES = [batch(9 - number, ended_at=NOW - timedelta(seconds=10 * number)) for number in range(10)]


def status(state: QueryState = QueryState.RUNNING, *, age_s: float = 1, run_id: str = samples.RUN_ID) -> QueryStatus:
    at = NOW - timedelta(seconds=age_s)
    return QueryStatus(run_id=run_id, lease=1, query_id=QUERY_ID, state=state, since=at, sent_at=at, received_at=at)


def summary(run: Run | None, of: QueryStatus | None, batches: Sequence[QueryBatch] = BATCHES) -> QuerySummary:
    return summary_of("flights", definition(transform=QUERY), run, of, batches, now=NOW)


def test_rates_are_of_the_last_minute() -> None:
    # Ends of -50 s to 0 s; the one at -60 s is not after the beginning.
    assert row_rates(BATCHES, status(), interval_ms=1_000, now=NOW) == (6_000 / 60, 60 / 60)


def test_query_without_new_records_slows_down_to_zero() -> None:
    later = NOW + timedelta(minutes=5)
    reported = status(age_s=-300)
    assert row_rates(BATCHES, reported, interval_ms=1_000, now=later) == (0, 0)


def test_long_trigger_interval_has_a_longer_span() -> None:
    ends = [batch(number, ended_at=NOW - timedelta(minutes=10 * (3 - number))) for number in (3, 2, 1, 0)]
    incoming, _ = row_rates(ends, status(), interval_ms=600_000, now=NOW)
    assert incoming == pytest.approx(3_000 / 1_800)


def test_new_query_is_measured_from_its_first_batch() -> None:
    first = [batch(0, ended_at=NOW - timedelta(seconds=1), trigger_ms=4_000)]
    assert row_rates(first, status(), interval_ms=1_000, now=NOW) == (1_000 / 5, 10 / 5)


def test_clock_of_a_driver_that_is_behind_does_not_make_the_rate_zero() -> None:
    behind = timedelta(hours=1)
    slow = [batch(number, ended_at=NOW - behind - timedelta(seconds=9 - number)) for number in range(9, -1, -1)]
    at = NOW - behind
    reported = QueryStatus(
        run_id="r", lease=1, query_id=QUERY_ID, state=QueryState.RUNNING, since=NOW, sent_at=at, received_at=NOW
    )
    incoming, _ = row_rates(slow, reported, interval_ms=1_000, now=NOW)
    assert incoming is not None
    assert incoming > 900


def test_unknown_output_rows_have_no_rate() -> None:
    found = row_rates([batch(1, output_rows=None), batch(0)], status(), interval_ms=1_000, now=NOW)
    assert found[1] is None


def test_watermark_state_and_late_rows_of_a_reporting_query() -> None:
    late = [batch(2, late_rows=3), batch(1, late_rows=4, watermark=None), batch(0, late_rows=None)]
    found = summary(samples.run(), status(), late)
    assert (found.state, found.is_reporting) == (QueryState.RUNNING, True)
    assert found.watermark_age_ms == 600_000
    assert (found.late_rows, found.late_in_batches) == (7, 2)
    assert found.median_trigger_ms == 900


def test_watermark_before_1970_and_ahead_of_now() -> None:
    for years in (-300, 3):
        mark = NOW + timedelta(days=365 * years)
        found = summary(samples.run(), status(), [batch(0, watermark=mark)])
        assert found.watermark_age_ms == pytest.approx(-365 * years * 86_400_000)


@pytest.mark.parametrize(
    ("run", "of", "words"),
    [
        (None, None, "Never started"),
        (None, status(), "The run has ended"),
        (samples.run(), None, "has not reported its query yet"),
        (samples.run(), status(run_id="an earlier run"), "has not reported its query yet"),
        (samples.run(), status(age_s=42), "No report from the driver for 42 s"),
        (samples.run(), status(QueryState.STARTING), "fences older producers"),
        (samples.run(), status(QueryState.WAITING), "waits for new records"),
        (samples.run(), status(QueryState.RUNNING), "A batch is running"),
        (samples.run(), status(QueryState.HELD), "The next batch is not begun"),
        (samples.run(desired=DesiredRunState.PAUSE), status(QueryState.HELD), "Paused"),
        (samples.run(desired=DesiredRunState.DRAIN), status(QueryState.HELD), "Draining"),
    ],
)
def test_sentence_says_the_state(run: Run | None, of: QueryStatus | None, words: str) -> None:
    assert words in summary(run, of).sentence


@pytest.mark.parametrize(
    ("run", "of"),
    [
        (None, status()),
        (samples.run(), None),
        (samples.run(), status(run_id="an earlier run")),
        (samples.run(), status(age_s=REPORTS_WITHIN.total_seconds() + 1)),
    ],
)
def test_rates_are_unknown_without_reports(run: Run | None, of: QueryStatus | None) -> None:
    found = summary(run, of)
    assert (found.is_reporting, found.input_rows_per_s, found.output_rows_per_s) == (False, None, None)


def test_batches_of_an_earlier_checkpoint_are_left_out() -> None:
    found = summary(samples.run(), status(), [batch(0), batch(70, query_id="earlier", late_rows=9)])
    assert found.late_rows == 0
    assert found.newest is not None
    assert found.newest.batch == 0
