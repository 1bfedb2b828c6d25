"""The chart of transactional ids."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.ids.registry import IdCount
from app.kit.web.pages.charts import Chart, ChartLine, chart_of


def id_growth_chart_of(counts: Sequence[IdCount]) -> Chart:
    """Draw the numbers of all and of managed ids."""
    lines = (
        ChartLine("all", "--chart-in", [count.ids for count in counts]),
        ChartLine("managed", "--chart-out", [count.ours for count in counts]),
    )
    return chart_of(lines, [int(count.at.timestamp()) for count in counts], unit=" ids")
