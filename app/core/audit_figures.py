"""The report of an audit to the product that requested it."""

from __future__ import annotations

import msgspec


class AuditFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of ids that an audit found; `read` and `expected` are in records.

    unexpected: outputs without an input. dangling: committed references to files that are missing or differ.
    incomplete: the reason why it is not complete, else empty.
    """

    audit_id: str
    read: int
    expected: int
    lost: int
    duplicated: int
    unexpected: int = 0
    dangling: int = 0
    incomplete: str = ""


class AuditWord(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an audit: open, or ended with figures, or in `no_audit` the reason why there is none."""

    audit_id: str | None = None
    figures: AuditFigures | None = None
    no_audit: str = ""

    @property
    def is_through(self) -> bool:
        return self.figures is not None or bool(self.no_audit)
