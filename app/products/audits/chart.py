"""The chart of audits."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from app.products.audits.audit import Audit
from app.products.audits.result import AuditCounts

_AUDIT_LINES = (
    {"label": "expected", "colour": "--chart-in"},
    # Not on the scale of outputs: a mark at each broken window.
    {"label": "wrong", "colour": "--chart-abort", "is_mark": True},
)


def audits_chart_of(audits: Sequence[Audit]) -> str | None:
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
    data = [
        [int(end.timestamp()) for end in ends],
        [None if result is None else result.counts.expected for result in results],
        [None if result is None else _wrong(result.counts) for result in results],
    ]
    return orjson.dumps({"lines": _AUDIT_LINES, "data": data, "unit": ""}).decode()


def _wrong(counts: AuditCounts) -> int:
    proof = (counts.lost, counts.duplicated, counts.unexpected, counts.different, counts.dangling)
    return sum(tally.records for tally in proof)
