"""The chart of transactional ids."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from app.core.ids.registry import IdCount

_ID_LINES = ({"label": "all", "colour": "--chart-in"}, {"label": "ours", "colour": "--chart-out"})


def id_growth_chart_of(counts: Sequence[IdCount]) -> str:
    """How many ids there were, and how many of them ours."""
    data = [
        [int(count.at.timestamp()) for count in counts],
        [count.ids for count in counts],
        [count.ours for count in counts],
    ]
    return orjson.dumps({"lines": _ID_LINES, "data": data, "unit": ""}).decode()
