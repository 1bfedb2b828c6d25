"""Orphans as they may be found: findings, looks in the database, and collectors whose jobs a test ends."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from app.products.files.orphan_findings import (
    Amount,
    DanglingReference,
    OrphanFile,
    OrphanFindings,
    RootFindings,
    UndecidedTransaction,
)
from app.products.files.orphan_look import OrphanLook, OrphanResult
from app.products.files.orphan_ports import CollectionProgress, OrphanOrder
from app.products.files.service import orphans
from app.products.files.store.orphan_looks import OrphanLookStore
from tests.support.control_plane import ANNA, ControlPlane

ROOT = "file:///lake"
MARGIN = "1590 s: rotation 30, uploads 60, pause of a member 300, transaction.max.timeout.ms 900, clocks 300"


def root_findings(at: datetime, **fields: Any) -> RootFindings:
    defaults: dict[str, Any] = {
        "root": ROOT,
        "listed_at": at,
        "skew_ms": None,
        "margin_ms": 1_590_000,
        "margin": MARGIN,
        "known_since": at - timedelta(days=3),
        "known_since_why": "the pipeline was made then",
        "referenced": Amount(files=812, size_bytes=9_300_000_000),
        "too_young": Amount(files=4, size_bytes=1_000_000),
        "orphans": Amount(),
        "unknown": Amount(),
        "not_ours": Amount(),
        "open_uploads": 0,
        "missing": 0,
        "unchecked": 0,
        "references": 812,
        "others": 0,
    }
    return RootFindings(**{**defaults, **fields})


def findings(
    at: datetime, *, orphans: int = 0, missing: int = 0, name: str = "flights", **fields: Any
) -> OrphanFindings:
    sizes = [(number + 1) * 12_345 for number in range(orphans)]
    amount = Amount(files=orphans, size_bytes=sum(sizes))
    shown = range(min(orphans, 25))
    return OrphanFindings(
        roots=(root_findings(at, orphans=amount, missing=missing, **fields),),
        oldest=tuple(
            OrphanFile(
                root=ROOT,
                path=f"{name}/user=anna/date=2026-01-01/{number:032x}.avro",
                size_bytes=sizes[number],
                uploaded_at=at - timedelta(hours=30 - number),
            )
            for number in shown
        ),
        dangling=tuple(
            DanglingReference(
                root=ROOT, path=f"{name}/user=otto/date=2026-01-01/{number:032x}.avro", place=f"out-0@{number}"
            )
            for number in range(min(missing, 25))
        ),
    )


def open_transaction(at: datetime) -> UndecidedTransaction:
    return UndecidedTransaction(
        topic="out", partition=0, offset=41, since=at - timedelta(minutes=7), transactional_id="fl.t.flights.0.0"
    )


async def asked(plane: ControlPlane, pipeline: str = "flights") -> OrphanLook:
    async with plane.uow() as uow:
        look = await orphans.ask_look(uow, pipeline=pipeline, by=ANNA, why=None, now=plane.now)
        await uow.commit()
    return look


async def collecting(plane: ControlPlane, look_id: str, pipeline: str = "flights") -> OrphanLook:
    async with plane.uow() as uow:
        look = await orphans.ask_collection(
            uow, pipeline=pipeline, look_id=look_id, by=ANNA, why="the bucket is full", now=plane.now
        )
        await uow.commit()
    return look


async def begun(plane: ControlPlane, look: OrphanLook) -> tuple[OrphanLook, OrphanOrder] | None:
    async with plane.uow() as uow:
        found = await orphans.begin(uow, look.id, now=plane.now)
        await uow.commit()
    return found


async def told(plane: ControlPlane, look: OrphanLook, said: str, deleted: Amount | None = None) -> bool:
    async with plane.uow() as uow:
        is_ours = await orphans.note_progress(uow, look, said, deleted or Amount())
        await uow.commit()
    return is_ours


async def ended(plane: ControlPlane, look: OrphanLook, result: OrphanResult) -> bool:
    async with plane.uow() as uow:
        is_kept = await orphans.end(uow, look, result, now=plane.now)
        await uow.commit()
    return is_kept


async def looked(plane: ControlPlane, result: OrphanResult, pipeline: str = "flights") -> OrphanLook:
    """A search from the request to its end."""
    found = await begun(plane, await asked(plane, pipeline))
    assert found is not None
    assert await ended(plane, found[0], result)
    return await get(plane, found[0].id)


async def get(plane: ControlPlane, look_id: str) -> OrphanLook:
    async with plane.uow() as uow:
        return await uow.of(OrphanLookStore).get(look_id)


async def known(plane: ControlPlane, pipeline: str = "flights") -> orphans.Orphans:
    async with plane.uow() as uow:
        return await orphans.orphans_of(uow, pipeline)


class PlayedJob:
    """The port `OrphanJob`, with the answers of a test."""

    def __init__(self, order: OrphanOrder) -> None:
        self.order = order
        self.progress = CollectionProgress("beginning", Amount(), 0)
        self.result: OrphanResult | None = None
        self.is_stopped = False

    def tell(self, said: str, deleted: Amount | None = None) -> None:
        self.progress = CollectionProgress(said, deleted or Amount(), self.progress.steps + 1)

    def stop(self) -> None:
        self.is_stopped = True


class PlayedCollectors:
    """The port `OrphanCollectors`."""

    def __init__(self) -> None:
        self.jobs: list[PlayedJob] = []

    def begin(self, order: OrphanOrder) -> PlayedJob:
        self.jobs.append(PlayedJob(order))
        return self.jobs[-1]
