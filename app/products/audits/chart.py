"""The chart of audits."""

from __future__ import annotations

from collections.abc import Sequence

from app.kit.web.pages.charts import Chart, ChartLine, chart_of
from app.products.audits.audit import Audit
from app.products.audits.result import AuditCounts


def audits_chart_of(audits: Sequence[Audit]) -> Chart | None:
    """Return the expected outputs of each audited window, at its end; windows without a result stay empty."""
    spans = {
        audit.span[1]: audit
        for audit in reversed(audits)
        if audit.span is not None and audit.has_ended and audit.comparison is None
    }
    ends = sorted(spans)
    results = [spans[end].result for end in ends]
    if sum(result is not None for result in results) < 2:
        return None
    expected = [None if result is None else result.counts.expected for result in results]
    wrong = [None if result is None else _wrong(result.counts) for result in results]
    lines = (
        ChartLine("expected", "--chart-in", expected),
        # Not on the scale of outputs: a mark at each broken window.
        ChartLine("wrong", "--chart-abort", wrong, is_mark=True),
    )
    return chart_of(lines, [int(end.timestamp()) for end in ends], unit=" records")


def _wrong(counts: AuditCounts) -> int:
    proof = (counts.lost, counts.duplicated, counts.unexpected, counts.different, counts.dangling)
    return sum(tally.records for tally in proof)
