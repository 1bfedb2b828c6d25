"""A hanging transaction as it is kept: when it was found first, and when and how it ended."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from app.core.hanging.hanging_transaction import Ending, HangingTransaction

KEPT_FOR = timedelta(days=30)
"""So long after its end."""


class HangingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """ended_at: by the clock of whoever wrote the marker, else ours; None while it hangs."""

    transaction: HangingTransaction
    found_at: datetime
    ended_at: datetime | None
    ending: Ending | None
    marker_offset: int | None
