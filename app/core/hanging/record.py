"""A stored hanging transaction: with the time of its detection, and of its end."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from app.core.hanging.hanging_transaction import HangingEnding, HangingTransaction

KEPT_FOR = timedelta(days=30)
"""After its end."""


class HangingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """ended_at: by the clock of the marker's author, else by the server's; None while it hangs."""

    transaction: HangingTransaction
    found_at: datetime
    ended_at: datetime | None
    ending: HangingEnding | None
    marker_offset: int | None
