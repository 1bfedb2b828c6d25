"""What a chart draws: its axis, the seconds with an abort, events with links; and the same without JavaScript."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.core.journals.transaction_pace import PaceSample
from app.core.observing.pages.charts import open_chart_of, pace_chart_of
from app.core.runs.pages.charts import run_chart_of
from app.core.runs.series import RunPoint
from app.kit.chart_range import ChartRange, window_of
from tests.browser.test_names_and_screens import pipeline_page

BEGAN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SECONDS = 200
WINDOW = window_of(ChartRange.QUARTER, now=BEGAN + timedelta(seconds=SECONDS))
USUAL_PER_S = 400.0

# A canvas keeps no words and no lines, so they are written down as they are drawn; the last drawing counts.
DRAW = """
async (series) => {
  const drawn = { marks: [] };
  const paint = CanvasRenderingContext2D.prototype;
  const { moveTo } = paint;
  const abort = getComputedStyle(document.documentElement).getPropertyValue("--chart-abort").trim();
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.strokeStyle = abort;
  paint.moveTo = function (x, y) {
    if (this.strokeStyle === canvas.strokeStyle && this.getLineDash().length) drawn.marks.push(x);
    return moveTo.call(this, x, y);
  };
  const chart = document.createElement("rate-chart");
  chart.dataset.series = series;
  document.querySelector("main").append(chart);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  drawn.marks.length = 0;
  chart.plot.redraw();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  Object.assign(paint, { moveTo });
  return {
    marks: drawn.marks,
    top: chart.plot.scales.y.max,
    places: chart.plot.data[0].map((at) => Math.round(chart.plot.valToPos(at, "x", true))),
    from: chart.plot.scales.x.min,
    to: chart.plot.scales.x.max,
  };
}
"""


def drawn(page: Page, *, records_in: dict[int, float] | None = None, aborts: tuple[int, ...] = ()) -> Any:
    """A chart of `SECONDS` samples at the usual rate, but for `records_in` and `aborts`, by second."""
    points = [
        RunPoint(
            at=BEGAN + timedelta(seconds=second),
            in_low=(rate := (records_in or {}).get(second, USUAL_PER_S)),
            in_high=rate,
            out_low=USUAL_PER_S / 4,
            out_high=USUAL_PER_S / 4,
            aborts=float(second in aborts),
        )
        for second in range(SECONDS)
    ]
    return drawn_of(page, run_chart_of(points, WINDOW).series)


def drawn_of(page: Page, series: str) -> Any:
    page.goto("/")
    page.wait_for_function("() => Boolean(customElements.get('rate-chart') && window.uPlot)")
    return page.evaluate(DRAW, series)


@pytest.mark.parametrize(
    "records_in",
    [{}, {50: 1_500.0}, {50: 72_116.0}, dict.fromkeys(range(100, SECONDS), 9_000.0)],
    ids=["no peak", "a small one", "one second of 180 times the rate", "a new rate that stays"],
)
def test_every_peak_is_inside_the_axis(page: Page, records_in: dict[int, float]) -> None:
    chart = drawn(page, records_in=records_in)
    highest = max([USUAL_PER_S, *records_in.values()])
    assert highest <= chart["top"] <= 2 * highest
    assert (chart["from"], chart["to"]) == (WINDOW.since.timestamp(), WINDOW.until.timestamp())


def test_each_second_with_an_abort_has_its_mark_and_no_other(page: Page) -> None:
    chart = drawn(page, aborts=(30, 120))
    assert chart["marks"] == [chart["places"][30], chart["places"][120]]
    assert drawn(page)["marks"] == []


def test_open_transactions_are_no_rate_and_have_no_marks(page: Page) -> None:
    began_s = int(BEGAN.timestamp())
    samples = [PaceSample(began_s + second, 40 if second == 50 else 2, 5, 1) for second in range(SECONDS)]
    chart = drawn_of(page, open_chart_of(samples, WINDOW).series)
    assert chart["top"] >= 40
    assert chart["marks"] == []
    assert drawn_of(page, pace_chart_of(samples, WINDOW).series)["marks"] == chart["places"]


def test_events_are_lines_with_links_to_them_and_rows_for_keys(page: Page, tmp_path: Path) -> None:
    view = page_of_a_pipeline(page, tmp_path)
    links = view.locator("rate-chart a.marker")
    expect(links).to_have_count(2)
    rows = view.locator("#chart-markers tbody tr")
    expect(rows).to_have_count(2)
    fencing = view.locator("rate-chart a.marker.fencing")
    href = fencing.get_attribute("href")
    assert href == view.locator("#chart-markers tr[data-kind=fencing] a").evaluate("link => link.href")
    assert "/fencing/" in (href or "")
    assert "A new producer took" in (fencing.get_attribute("title") or "")
    box, frame = fencing.bounding_box(), view.locator("rate-chart .u-over").bounding_box()
    assert box is not None
    assert frame is not None
    # The sample's fencing event is a minute before the end of the 15.
    assert (box["x"] + box["width"] / 2 - frame["x"]) / frame["width"] == pytest.approx(14 / 15, abs=0.01)


def test_without_javascript_the_server_has_drawn_the_chart_and_no_space_is_empty(page: Page, tmp_path: Path) -> None:
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    try:
        view = page_of_a_pipeline(context.new_page(), tmp_path)
        chart = view.locator("rate-chart").bounding_box()
        drawing = view.locator("rate-chart .drawn").bounding_box()
        assert chart is not None
        assert drawing is not None
        assert chart["height"] == pytest.approx(drawing["height"], abs=2)
        assert view.locator("rate-chart path.chart-in").bounding_box() is not None
        view.locator("#chart-markers summary").press("Enter")
        expect(view.locator("#chart-markers tbody tr").first).to_be_visible()
        expect(view.locator("nav.ranges a[aria-current]")).to_have_text("15 min")
    finally:
        context.close()


def page_of_a_pipeline(page: Page, folder: Path) -> Page:
    file = folder / "pipeline.html"
    file.write_text(pipeline_page(), encoding="utf-8")
    page.goto(file.as_uri())
    return page
