"""The states of an orphan scan, and of a collection, which scans again and then deletes.

ASKED ─▶ RUNNING ─▶ DONE
             │ ▲ └─▶ FAILED
             └─┘
From RUNNING to RUNNING: the server died, and another one scans again. A collection is not continued, since its
remaining orphans were not confirmed again. It ends as FAILED with the reported deletions.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from app.products.files.orphan_findings import NO_FILES, Amount, Collected, ConfirmedOrphans, OrphanFindings

KEPT = 5
"""Scans and collections that are kept of a pipeline, by act and end."""
MOST_ATTEMPTS = 3
"""Attempts after which a scan whose server died is not repeated."""


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
    """An orphan scan or a collection.

    attempt: number of the current attempt; writes of earlier ones are ignored.
    `told`: progress as a text. deleted: deletions so far. reason: reason of a failure.
    findings: None if not yet known; for a collection, the remaining files.
    confirmed, collected: of a collection, its confirmed findings and its result.
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
    confirmed: ConfirmedOrphans | None = None
    collected: Collected | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


class OrphanResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an attempt. reason: the reason why it is not complete; None: it is."""

    findings: OrphanFindings | None = None
    collected: Collected | None = None
    reason: str | None = None


def begun(look: OrphanLook, *, now: datetime) -> OrphanLook:
    """Return the next attempt. Raises ValueError if it has ended."""
    if look.has_ended:
        raise ValueError(f"{look.act} {look.id} is {look.state}")
    return msgspec.structs.replace(
        look, state=OrphanLookState.RUNNING, attempt=look.attempt + 1, begun_at=now, told="", deleted=NO_FILES
    )


def ended(look: OrphanLook, result: OrphanResult, *, now: datetime) -> OrphanLook:
    """Return the ended scan or collection. Raises ValueError if it has ended already."""
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
    """Return why a job whose server died is not repeated; None: it is."""
    if look.state is not OrphanLookState.RUNNING:
        return None
    if look.act is OrphanAct.COLLECT:
        return (
            "the server ended, or lost the lock, before it was complete. The reported deletions are below, and a few "
            "more are possible. Scan again, and collect the remaining orphans"
        )
    if look.attempt >= MOST_ATTEMPTS:
        return f"{look.attempt} servers ended, or lost the lock, before it was complete: see the servers' logs"
    return None


def collected_so_far(look: OrphanLook, deleted: Amount) -> Collected | None:
    """Return the known result of a collection without an end; None for a scan."""
    return None if look.act is OrphanAct.LOOK else Collected(deleted=deleted)
