"""Request orphan scans and collections of a pipeline, and store their results.

These functions write rows only, which the loop in app/products/files/loops/orphan_watch.py acts on.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from app.core.access.service import command_log
from app.core.clusters.store import ClusterStore
from app.core.pipelines.store import PipelineStore
from app.kit.access import COLLECTOR, Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, NotFoundError
from app.products.files.orphan_findings import Amount, ConfirmedOrphans, confirmed
from app.products.files.orphan_look import (
    OrphanAct,
    OrphanLook,
    OrphanLookState,
    OrphanResult,
    begun,
    collected_so_far,
    ended,
    why_not_again,
)
from app.products.files.orphan_ports import OrphanOrder
from app.products.files.store.orphan_looks import OrphanLookStore

NOTICE = "orphans"
"""A scan or a collection was requested."""


class Orphans(msgspec.Struct, frozen=True, kw_only=True):
    """The known state of a pipeline's orphans.

    newest: the newest scan or collection; None: none yet.
    judged: the newest one that judged files, whose findings are shown.
    collected: the newest collection that has ended.
    """

    newest: OrphanLook | None = None
    judged: OrphanLook | None = None
    collected: OrphanLook | None = None

    @property
    def is_at_work(self) -> bool:
        return self.newest is not None and not self.newest.has_ended


NOBODY_LOOKED = Orphans()


async def orphans_of(uow: UnitOfWork, pipeline: str) -> Orphans:
    """Return the state of a pipeline's orphans. Raises NotFoundError if the pipeline does not exist."""
    await uow.of(PipelineStore).get(pipeline)
    kept = await uow.of(OrphanLookStore).newest(pipeline)
    return Orphans(
        newest=kept[0] if kept else None,
        judged=next((one for one in kept if one.findings is not None and one.findings.roots), None),
        collected=next((one for one in kept if one.act is OrphanAct.COLLECT and one.has_ended), None),
    )


async def ask_look(uow: UnitOfWork, *, pipeline: str, by: Principal, why: str | None, now: datetime) -> OrphanLook:
    """Request a scan, which changes nothing.

    Raises NotFoundError for a pipeline that never wrote files, ConflictError while another scan or collection runs.
    """
    require(by, Verb.LOOK_FOR_ORPHANS)
    look = await _add(uow, pipeline, OrphanAct.LOOK, by=by, now=now)
    await _record(uow, look, Verb.LOOK_FOR_ORPHANS, by=by, why=why, now=now, outcome=f"orphan scan {look.id}")
    return look


async def ask_collection(
    uow: UnitOfWork, *, pipeline: str, look_id: str, by: Principal, why: str | None, now: datetime
) -> OrphanLook:
    """Request the deletion of a scan's findings, and no more. It must be the newest one that judged files.

    Raises ConflictError if a newer one did, if it found nothing to delete, and while another scan or collection runs.
    """
    require(by, Verb.COLLECT_ORPHANS)
    judged = (await orphans_of(uow, pipeline)).judged
    if judged is None or judged.findings is None or judged.id != look_id:
        raise ConflictError(
            f"scan {look_id} is not the newest scan of {pipeline} with findings: view the newest one, and collect that"
        )
    if not judged.findings.is_anything_to_collect:
        raise ConflictError(f"scan {look_id} of {pipeline} found no orphan, so there is nothing to collect")
    seen = confirmed(judged.id, judged.findings)
    look = await _add(uow, pipeline, OrphanAct.COLLECT, by=by, now=now, seen=seen)
    outcome = f"collection {look.id} of {_amount(seen.orphans)} found by scan {look_id}"
    await _record(uow, look, Verb.COLLECT_ORPHANS, by=by, why=why, now=now, outcome=outcome)
    return look


async def begin(uow: UnitOfWork, look_id: str, *, now: datetime) -> tuple[OrphanLook, OrphanOrder] | None:
    """Begin the next attempt, and return it with its order; None if it has ended or cannot be repeated.

    Writes of the previous attempt are ignored from now on.
    """
    look = await uow.of(OrphanLookStore).get(look_id, for_update=True)
    if look.has_ended:
        return None
    reason = why_not_again(look)
    if reason is None:
        try:
            order = await _order(uow, look)
        except NotFoundError as error:
            reason = error.message
        else:
            at_work = begun(look, now=now)
            await uow.of(OrphanLookStore).save(at_work, attempt=look.attempt)
            uow.notify("pipeline", look.pipeline)
            return at_work, order
    await end(uow, look, OrphanResult(collected=collected_so_far(look, look.deleted), reason=reason), now=now)
    return None


async def note_progress(uow: UnitOfWork, look: OrphanLook, told: str, deleted: Amount) -> bool:
    """Store the progress. Return false if it has ended, or another attempt has begun."""
    await uow.relax_durability()
    is_ours = await uow.of(OrphanLookStore).save_progress(look.id, told, deleted, attempt=look.attempt)
    uow.notify("pipeline", look.pipeline)
    return is_ours


async def end(uow: UnitOfWork, look: OrphanLook, result: OrphanResult, *, now: datetime) -> bool:
    """Store the result. Return false if it has ended, or another attempt has begun."""
    over = ended(look, result, now=now)
    if not await uow.of(OrphanLookStore).save(over, attempt=look.attempt):
        return False
    if look.act is OrphanAct.COLLECT:
        outcome = f"collection {look.id}: {_collected_words(over)}"
        await _record(uow, over, Verb.COLLECT_ORPHANS, by=COLLECTOR, why=None, now=now, outcome=outcome)
    uow.notify("pipeline", look.pipeline)
    return True


async def _add(
    uow: UnitOfWork,
    pipeline: str,
    act: OrphanAct,
    *,
    by: Principal,
    now: datetime,
    seen: ConfirmedOrphans | None = None,
) -> OrphanLook:
    await uow.of(PipelineStore).get(pipeline)
    revisions = await uow.of(PipelineStore).list_revisions(pipeline)
    if all(revision.definition.files is None for revision in revisions):
        raise NotFoundError(f"pipeline {pipeline} has no file sink: it writes records, not files")
    living = next((one for one in await uow.of(OrphanLookStore).newest(pipeline) if not one.has_ended), None)
    if living is not None:
        what = "orphan scan" if living.act is OrphanAct.LOOK else "collection of orphans"
        raise ConflictError(f"the {what} of {pipeline} by {living.asked_by} has not ended yet: wait for its end")
    look = await uow.of(OrphanLookStore).add(
        OrphanLook(
            id="",
            pipeline=pipeline,
            act=act,
            state=OrphanLookState.ASKED,
            asked_at=now,
            asked_by=by.name,
            confirmed=seen,
        )
    )
    uow.notify("pipeline", pipeline)
    uow.notify(NOTICE, pipeline)
    return look


async def _order(uow: UnitOfWork, look: OrphanLook) -> OrphanOrder:
    """Return the order. Raises NotFoundError if a cluster that the pipeline wrote to is not registered any more."""
    record = await uow.of(PipelineStore).get(look.pipeline)
    revisions = await uow.of(PipelineStore).list_revisions(look.pipeline)
    writing = tuple(revision.definition for revision in revisions if revision.definition.files is not None)
    clusters = {
        name: await uow.of(ClusterStore).get(name) for name in sorted({definition.cluster for definition in writing})
    }
    return OrphanOrder(
        pipeline=look.pipeline,
        created_at=record.created_at,
        definitions=writing,
        connections={name: cluster.connection() for name, cluster in clusters.items()},
        kafka_cluster_ids={name: cluster.kafka_cluster_id for name, cluster in clusters.items()},
        confirmed=look.confirmed,
    )


async def _record(
    uow: UnitOfWork, look: OrphanLook, verb: Verb, *, by: Principal, why: str | None, now: datetime, outcome: str
) -> None:
    details: dict[str, Any] = {"look": look.id, "asked_by": look.asked_by}
    if look.confirmed is not None:
        details |= {"confirmed": msgspec.to_builtins(look.confirmed)}
    if look.collected is not None:
        details |= {"collected": msgspec.to_builtins(look.collected)}
    await command_log.record(
        uow, by=by, verb=verb, target=f"pipeline:{look.pipeline}", why=why, now=now, outcome=outcome, details=details
    )


def _collected_words(look: OrphanLook) -> str:
    if look.collected is None:
        said = "nothing was deleted"
    else:
        kept = look.collected.kept_files
        said = f"deleted {_amount(look.collected.deleted)}" + (f", kept {kept:,}" if kept else "")
    return f"{said}; requested by {look.asked_by}" + (f". It failed: {look.reason}" if look.reason else "")


def _amount(amount: Amount) -> str:
    return f"{amount.files:,} file{'' if amount.files == 1 else 's'}, {amount.size_bytes:,} bytes"
