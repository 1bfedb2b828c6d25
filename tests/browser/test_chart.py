"""The text of a chart beside its lines: a peak above its top, and the seconds with an abort."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page

from app.core.journals.transaction_pace import PaceSample
from app.core.observing.pages.charts import open_chart_of, pace_chart_of
from app.core.runs.pages.charts import chart_of
from app.core.runs.series import RunSample

BEGAN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SECONDS = 200
USUAL_PER_S = 400.0

# A canvas keeps no words and no lines, so they are written down as they are drawn; the last drawing counts.
DRAW = """
async (series) => {
  const drawn = { texts: [], marks: [] };
  const paint = CanvasRenderingContext2D.prototype;
  const { fillText, moveTo } = paint;
  const abort = getComputedStyle(document.documentElement).getPropertyValue("--chart-abort").trim();
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.strokeStyle = abort;
  paint.fillText = function (text, ...rest) {
    drawn.texts.push(text);
    return fillText.call(this, text, ...rest);
  };
  paint.moveTo = function (x, y) {
    if (this.strokeStyle === canvas.strokeStyle && this.getLineDash().length) drawn.marks.push(x);
    return moveTo.call(this, x, y);
  };
  const chart = document.createElement("rate-chart");
  chart.dataset.series = series;
  document.querySelector("main").append(chart);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  drawn.texts.length = drawn.marks.length = 0;
  chart.plot.redraw();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  Object.assign(paint, { fillText, moveTo });
  return {
    peaks: drawn.texts.filter((text) => text.startsWith("▲")),
    marks: drawn.marks,
    top: chart.plot.scales.y.max,
    places: chart.plot.data[0].map((at) => Math.round(chart.plot.valToPos(at, "x", true))),
    times: chart.plot.data[0].map((at) => `${new Date(at * 1000).toISOString().slice(11, 19)} UTC`),
  };
}
"""


def drawn(page: Page, *, records_in: dict[int, float] | None = None, aborts: tuple[int, ...] = ()) -> Any:
    """A chart of `SECONDS` samples at the usual rate, but for `records_in` and `aborts`, by second."""
    samples = [
        RunSample(
            at=BEGAN + timedelta(seconds=second),
            records_in_per_s=(records_in or {}).get(second, USUAL_PER_S),
            records_out_per_s=USUAL_PER_S / 4,
            commits_per_s=10,
            aborts_per_s=float(second in aborts),
        )
        for second in range(SECONDS)
    ]
    return drawn_of(page, chart_of(samples))


def drawn_of(page: Page, series: str) -> Any:
    page.goto("/")
    page.wait_for_function("() => Boolean(customElements.get('rate-chart') && window.uPlot)")
    return page.evaluate(DRAW, series)


def test_a_short_peak_flattens_nothing_and_is_named_with_its_figure_and_time(page: Page) -> None:
    chart = drawn(page, records_in={50: 9_000.0, 51: 8_000.0})
    assert chart["peaks"] == [f"▲ up to 9,000/s at {chart['times'][50]}"]
    assert USUAL_PER_S < chart["top"] <= 3 * USUAL_PER_S


@pytest.mark.parametrize(
    "records_in",
    [{}, {50: 1_500.0}, dict.fromkeys(range(100, SECONDS), 9_000.0)],
    ids=["no peak", "a small one", "a new rate that stays"],
)
def test_a_longer_peak_is_inside_the_chart(page: Page, records_in: dict[int, float]) -> None:
    chart = drawn(page, records_in=records_in)
    assert chart["peaks"] == []
    assert chart["top"] >= max([USUAL_PER_S, *records_in.values()])


def test_each_second_with_an_abort_has_its_mark_and_no_other(page: Page) -> None:
    chart = drawn(page, aborts=(30, 120))
    assert chart["marks"] == [chart["places"][30], chart["places"][120]]
    assert drawn(page)["marks"] == []


def test_open_transactions_are_no_rate_and_have_no_marks(page: Page) -> None:
    began_s = int(BEGAN.timestamp())
    samples = [PaceSample(began_s + second, 40 if second == 50 else 2, 5, 1) for second in range(SECONDS)]
    chart = drawn_of(page, open_chart_of(samples))
    assert chart["peaks"] == [f"▲ up to 40 at {chart['times'][50]}"]
    assert chart["marks"] == []
    assert drawn_of(page, pace_chart_of(samples))["marks"] == chart["places"]
