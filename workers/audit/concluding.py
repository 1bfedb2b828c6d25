"""The conclusions from a finding where not all could be read."""

from __future__ import annotations

from collections.abc import Iterable

from app.products.audits.result import AuditSide, Gap, GapReason, IdFinding

_R = GapReason
_TAKES_FROM_SINK = frozenset(
    {_R.DELETED, _R.COMPACTED, _R.OPEN_TRANSACTION, _R.NOT_ADMITTED, _R.TIME_OF_WRITING, _R.TYPES_REFUSED}
)
_TAKES_FROM_SOURCE = frozenset({_R.DELETED, _R.COMPACTED, _R.NOT_ADMITTED, _R.TIME_OF_WRITING, _R.BEGINS, _R.MADE_ANEW})
"""Gaps without outputs that could explain a finding: open or unprocessed inputs."""
_NOT_PROCESSED_MAYBE = frozenset({_R.NOT_BEGUN, _R.MADE_ANEW})
"""Gaps below the group's offset in the source, which may still be unprocessed."""


def concluded(gaps: Iterable[Gap], *, repeated: int) -> dict[IdFinding, IdFinding]:
    """The findings' names where part of the other side could not be read: they prove nothing then.

    An output without a required one is still a surplus if every id is required once. If ids are repeated, its earlier
    input may be deleted. If another revision may have required other outputs, no finding proves anything.
    """
    reasons = {(gap.side, gap.reason) for gap in gaps}
    if any(reason is GapReason.REVISION_CHANGED for _, reason in reasons):
        return {
            IdFinding.LOST: IdFinding.MISSING,
            IdFinding.DUPLICATED: IdFinding.UNEXPLAINED,
            IdFinding.UNEXPECTED: IdFinding.UNEXPLAINED,
        }
    names: dict[IdFinding, IdFinding] = {}
    if any(
        (side is AuditSide.SINK and reason in _TAKES_FROM_SINK) or reason in _NOT_PROCESSED_MAYBE
        for side, reason in reasons
    ):
        names[IdFinding.LOST] = IdFinding.MISSING
    if any(side is AuditSide.SOURCE and reason in _TAKES_FROM_SOURCE for side, reason in reasons):
        names[IdFinding.UNEXPECTED] = IdFinding.UNEXPLAINED
        if repeated:
            names[IdFinding.DUPLICATED] = IdFinding.UNEXPLAINED
    return names


def concluded_of_rows(gaps: Iterable[Gap]) -> dict[IdFinding, IdFinding]:
    """The findings' names in a recomputation: a recomputed row may have several inputs, of which a gap has one."""
    proofs = (IdFinding.DUPLICATED, IdFinding.UNEXPECTED, IdFinding.DIFFERENT)
    names: dict[IdFinding, IdFinding] = {}
    for gap in gaps:
        if gap.side is AuditSide.SOURCE or gap.reason is _R.REVISION_CHANGED:
            return {IdFinding.LOST: IdFinding.MISSING, **dict.fromkeys(proofs, IdFinding.UNEXPLAINED)}
        if gap.reason in _TAKES_FROM_SINK:
            names[IdFinding.LOST] = IdFinding.MISSING
    return names
