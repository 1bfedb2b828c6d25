"""The colours of states: queries."""

from __future__ import annotations

from app.products.dataframes.wire import QueryState

TONES: tuple[tuple[str, str], ...] = (
    (QueryState.STARTING, "busy"),
    (QueryState.WAITING, "good"),
    (QueryState.RUNNING, "good"),
    (QueryState.HELD, "warn"),
)
