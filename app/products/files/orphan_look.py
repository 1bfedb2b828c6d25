"""The life of a look for orphans, and of a collection, which looks anew and then deletes: asked for, at work, ended.

ASKED ─▶ RUNNING ─▶ DONE
             │ ▲ └─▶ FAILED
             └─┘
From RUNNING to RUNNING: the server died, and another one looks anew. A collection is not taken up: what it had still to
delete nobody has seen since, so it ends as FAILED, with what it had told.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from app.products.files.orphan_findings import NO_FILES, Amount, Collected, Confirmed, OrphanFindings

KEPT = 5
"""Of each act and end, of a pipeline."""
MOST_ATTEMPTS = 3
"""A look that so many servers have died in is not begun once more."""


class OrphanAct(StrEnum):
    LOOK = "look"
    COLLECT = "collect"


class OrphanLookState(StrEnum):
    ASKED = "asked"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


ENDED = frozenset({OrphanLookState.DONE, OrphanLookState.FAILED})


class OrphanLook(msgspec.Struct, frozen=True, kw_only=True):
    """attempt: how often it was begun; whoever writes as an earlier one is not heard.

    told: how far it is, in words. deleted: so much is deleted so far. reason: why it FAILED.
    findings: None: it has not come so far. Of a collection: what is left after it.
    confirmed: of a collection. collected: what came of it.
    """

    id: str
    pipeline: str
    act: OrphanAct
    state: OrphanLookState
    asked_at: datetime
    asked_by: str
    attempt: int = 0
    begun_at: datetime | None = None
    told: str = ""
    deleted: Amount = NO_FILES
    ended_at: datetime | None = None
    reason: str | None = None
    findings: OrphanFindings | None = None
    confirmed: Confirmed | None = None
    collected: Collected | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


class OrphanResult(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended. reason: why it did not do all of it; None: it did."""

    findings: OrphanFindings | None = None
    collected: Collected | None = None
    reason: str | None = None


def begun(look: OrphanLook, *, now: datetime) -> OrphanLook:
    """Another attempt at it. Raises ValueError when it has ended."""
    if look.has_ended:
        raise ValueError(f"{look.act} {look.id} is {look.state}")
    return msgspec.structs.replace(
        look, state=OrphanLookState.RUNNING, attempt=look.attempt + 1, begun_at=now, told="", deleted=NO_FILES
    )


def ended(look: OrphanLook, result: OrphanResult, *, now: datetime) -> OrphanLook:
    """Raises ValueError when it has ended already."""
    if look.has_ended:
        raise ValueError(f"{look.act} {look.id} is {look.state}")
    return msgspec.structs.replace(
        look,
        state=OrphanLookState.DONE if result.reason is None else OrphanLookState.FAILED,
        ended_at=now,
        told="",
        reason=result.reason,
        findings=result.findings,
        collected=result.collected,
        deleted=look.deleted if result.collected is None else result.collected.deleted,
    )


def why_not_again(look: OrphanLook) -> str | None:
    """Why what a server died in is not begun once more; None: it is."""
    if look.state is not OrphanLookState.RUNNING:
        return None
    if look.act is OrphanAct.COLLECT:
        return (
            "the server ended, or lost its place, in the middle of it. What it had told by then is below, it may have "
            "deleted a few more. Look again to see what is left, and collect that"
        )
    if look.attempt >= MOST_ATTEMPTS:
        return f"{look.attempt} times a server ended, or lost its place, in the middle of it: see the servers' logs"
    return None


def collected_so_far(look: OrphanLook, deleted: Amount) -> Collected | None:
    """What is known of a collection that told no end; None: it is a look."""
    return None if look.act is OrphanAct.LOOK else Collected(deleted=deleted)
