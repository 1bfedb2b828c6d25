"""What is kept of a migration beside itself: the evidence that opened a gate, with what was seen when it did."""

from __future__ import annotations

from datetime import datetime

import msgspec

from app.domain.migrations.clause import Judged
from app.domain.migrations.look import Look
from app.domain.migrations.migration import Stage


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A gate that opened, or a step that was begun or finished. look: the records that prove it.

    step: its number; None: of the stage's gate. who: in whose name it was decided.
    """

    at: datetime
    who: str
    stage: Stage
    sentence: str
    clauses: tuple[Judged, ...]
    look: Look
    step: int | None = None
