"""The evidence of a migration: the state that opened a gate or ended a step."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec.structs import replace

from app.products.migrations.judged import Judged
from app.products.migrations.look import IdNow, Incarnation, MigrationLook
from app.products.migrations.migration import Migration, Stage


class IdProof(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence for one id: its newest incarnation in the journal, its owner, and the sources.

    partition, offset, journal_at: the record of `__transaction_state`; -1 and None if its coordinator was asked.
    ordinal, task, lease, attempt, host, pid, heard_at, generation: of the task that reports that it holds the id.
    fenced_in: the step in which Fenceline initialised it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_open: bool
    partition: int
    offset: int
    journal_at: datetime | None
    ordinal: int | None = None
    task: int | None = None
    lease: int | None = None
    attempt: int | None = None
    host: str | None = None
    pid: int | None = None
    heard_at: datetime | None = None
    generation: int | None = None
    fenced_in: int | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A gate that opened, or a step that began or ended. look: the complete state; proofs: its ids.

    step: its number; None: it is about the stage's gate. `who`: the user of the decision. server: the driving server.
    """

    at: datetime
    who: str
    stage: Stage
    sentence: str
    clauses: tuple[Judged, ...]
    look: MigrationLook
    step: int | None = None
    server: str = ""
    proofs: tuple[IdProof, ...] = ()


def proofs_of(migration: Migration, look: MigrationLook) -> tuple[IdProof, ...]:
    """Return the evidence of each id in the journal, by name."""
    return tuple(_proof(migration, look, name, now) for name, now in sorted(look.ids.items()))


def _proof(migration: Migration, look: MigrationLook, name: str, now: IdNow) -> IdProof:
    incarnation = Incarnation(name, now.producer_id, now.producer_epoch)
    fence = migration.fence_of(name)
    proof = IdProof(
        transactional_id=name,
        producer_id=now.producer_id,
        producer_epoch=now.producer_epoch,
        is_open=now.is_open,
        partition=now.partition,
        offset=now.offset,
        journal_at=now.at,
        fenced_in=fence.step if fence is not None and fence.incarnation == incarnation else None,
    )
    holder = look.holder_of(incarnation)
    if holder is None:
        return proof
    return replace(
        proof,
        ordinal=holder.ordinal,
        task=holder.task,
        lease=holder.lease,
        attempt=holder.attempt,
        host=holder.host,
        pid=holder.pid,
        heard_at=holder.heard_at,
        generation=holder.generation,
    )
