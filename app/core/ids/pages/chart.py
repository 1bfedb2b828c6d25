"""The chart of transactional ids."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from app.core.ids.registry import IdCount

_ID_LINES = ({"label": "all", "colour": "--chart-in"}, {"label": "managed", "colour": "--chart-out"})


def id_growth_chart_of(counts: Sequence[IdCount]) -> str:
    """Draw the numbers of all and of managed ids."""
    data = [
        [int(count.at.timestamp()) for count in counts],
        [count.ids for count in counts],
        [count.ours for count in counts],
    ]
    return orjson.dumps({"lines": _ID_LINES, "data": data, "unit": ""}).decode()
