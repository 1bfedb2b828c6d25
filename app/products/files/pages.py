"""The page of a pipeline's files: the newest files, partitions, checkpoints, schemas and orphans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Form, Query, Request, Response

from app.core.access.signed_in import Viewer, may
from app.core.pipelines.pages.tabs import pipeline_tabs
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, InvalidError
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import After, links_of
from app.kit.web.pages.screen import Look, Screen
from app.products.files.charts import file_records_chart_of, file_sizes_chart_of
from app.products.files.checkpoint import CheckpointPhase, FileCheckpoint
from app.products.files.schema_history import SchemaInHistory
from app.products.files.service import orphans, showing
from app.products.files.totals import PartitionTotal
from app.products.files.written_file import FileFilter, partition_filter, partition_text

router = APIRouter(route_class=PageRoute, include_in_schema=False)
FILES_SHOWN = 25
PARTITIONS_SHOWN = 15
CHECKPOINTS_SHOWN = 15
SCHEMAS_SHOWN = 10
_LONGEST_WORD = 4_000
_LONGEST_JSON = 20_000

Words = Annotated[list[str], Query(max_length=20)]
Why = Annotated[str, Form(max_length=1000)]


@dataclass(frozen=True, kw_only=True)
class PartitionBar:
    """href: the files of this partition. size_width, records_width: percent of the largest one shown."""

    words: str
    href: str
    total: PartitionTotal
    size_width: float
    records_width: float


@dataclass(frozen=True, kw_only=True)
class PhaseBar:
    """left, width: percent of the line, on a logarithmic scale that shows milliseconds beside half a minute."""

    phase: CheckpointPhase
    left: float
    width: float


@dataclass(frozen=True, kw_only=True)
class CheckpointLine:
    checkpoint: FileCheckpoint
    lengths: Mapping[CheckpointPhase, float | None]
    bars: tuple[PhaseBar, ...]


def looking_at(name: str, words: Sequence[str], after: str | None) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        found = await showing.files_page(
            uow,
            name,
            FileFilter(partition=partition_filter(words)),
            after=after,
            files=FILES_SHOWN,
            partitions=PARTITIONS_SHOWN,
            checkpoints=CHECKPOINTS_SHOWN,
            schemas=SCHEMAS_SHOWN,
            now=now,
        )
        sink = found.pipeline.definition.files
        columns = [] if sink is None else [column.name for column in sink.partition_by]
        context = {
            "name": name,
            "pipeline": found.pipeline,
            "sink": sink,
            "records": found.files.items,
            "pages": links_of(found.files.next_cursor, partial(address_of, name, words)),
            "standing": found.totals.standing,
            "totals": found.totals,
            "partitions": bars_of(name, found.totals.partitions, columns),
            "checkpoints": lines_of(found.checkpoints),
            "schemas": [(one, json_of(one)) for one in found.schemas],
            "size_chart": file_sizes_chart_of(found.totals.hours),
            "records_chart": file_records_chart_of(found.totals.hours),
            "orphans": found.orphans,
            "words": list(words),
            "is_first": after is None,
            "columns": columns,
            "partition_text": partition_text,
        }
        concerns = frozenset({f"pipeline:{name}"})
        tabs = pipeline_tabs(name, found.pipeline.definition, "files")
        return Screen(template="files/list", title=f"Files of {name}", context=context, concerns=concerns, tabs=tabs)

    return look


def bars_of(name: str, totals: Sequence[PartitionTotal], columns: Sequence[str]) -> list[PartitionBar]:
    most_bytes = max((one.total.size_bytes for one in totals), default=0)
    most_records = max((one.total.records for one in totals), default=0)
    return [
        PartitionBar(
            words=partition_text(one.partition, columns),
            href=address_of(name, [f"{column}={value}" for column, value in one.partition.items()]),
            total=one,
            size_width=_percent(one.total.size_bytes, most_bytes),
            records_width=_percent(one.total.records, most_records),
        )
        for one in totals
    ]


def lines_of(checkpoints: Sequence[FileCheckpoint]) -> list[CheckpointLine]:
    """Return the lines of checkpoints on one scale; the longest has the full width."""
    lengths = [one.lengths_ms() for one in checkpoints]
    longest = max((sum(_drawn(ms) for ms in of_one.values()) for of_one in lengths), default=0.0)
    lines: list[CheckpointLine] = []
    for checkpoint, of_one in zip(checkpoints, lengths, strict=True):
        bars: list[PhaseBar] = []
        left = 0.0
        for phase, ms in of_one.items():
            width = _drawn(ms) / longest * 100 if longest else 0.0
            if width > 0:
                bars.append(PhaseBar(phase=phase, left=round(left, 1), width=round(width, 1)))
            left += width
        lines.append(CheckpointLine(checkpoint=checkpoint, lengths=of_one, bars=tuple(bars)))
    return lines


def json_of(one: SchemaInHistory) -> str | None:
    """Return the schema as text; None if it is too long for a page with live updates."""
    text = msgspec.json.format(msgspec.json.encode(one.schema.schema), indent=2).decode()
    return text if len(text) <= _LONGEST_JSON else None


def address_of(name: str, words: Sequence[str], after: str | None = None) -> str:
    """Return the address of the page with these `column=value` filters and this cursor."""
    query = [("partition", word) for word in words] + ([] if after is None else [("after", after)])
    path = screen.url_of("pipelines", name, "files")
    return f"{path}?{urlencode(query)}" if query else path


def _drawn(ms: float | None) -> float:
    return 0.0 if ms is None else math.log2(1 + ms)


def _percent(part: int, whole: int) -> float:
    return round(part / whole * 100, 1) if whole else 0.0


@router.get("/pipelines/{name}/files")
@router.get("/pipelines/{name}/files/stream")
async def show(
    request: Request,
    wiring: WiringDep,
    by: Viewer,
    name: str,
    partition: Words = [],  # noqa: B006 - FastAPI takes it as the default and does not change it
    after: After = None,
) -> Response:
    # An empty field of the form is no filter.
    words = [word for word in partition if word]
    refused = _why_not(words)
    if refused is not None:
        look = looking_at(name, (), None)
        return await screen.page(request, wiring, by, look, refused=refused, is_live=False)
    # Only the first page of the list has live updates.
    return await screen.live(request, wiring, by, looking_at(name, words, after), is_live=after is None)


@router.post("/pipelines/{name}/files/orphans")
async def look_for_orphans(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.LOOK_FOR_ORPHANS)],
    name: str,
    why: Why = "",
) -> Response:
    try:
        await orphans.ask_look(uow, pipeline=name, by=by, why=why or None, now=wiring.clock.now())
        await uow.commit()
    except FencelineError as error:
        return await _refused(request, wiring, by, name, error)
    return screen.see("pipelines", name, "files", said="orphans-looked")


@router.post("/pipelines/{name}/files/orphans/collect")
async def collect_orphans(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.COLLECT_ORPHANS)],
    name: str,
    look: Annotated[str, Form(max_length=100)] = "",
    why: Why = "",
) -> Response:
    try:
        await orphans.ask_collection(uow, pipeline=name, look_id=look, by=by, why=why or None, now=wiring.clock.now())
        await uow.commit()
    except FencelineError as error:
        return await _refused(request, wiring, by, name, error)
    return screen.see("pipelines", name, "files", said="orphans-collected")


async def _refused(request: Request, wiring: Wiring, by: Principal, name: str, error: FencelineError) -> Response:
    look = looking_at(name, (), None)
    return await screen.page(request, wiring, by, look, refused=error, at=("pipelines", name, "files"))


def _why_not(words: Sequence[str]) -> FencelineError | None:
    if any(len(word) > _LONGEST_WORD or "\x00" in word for word in words):
        return InvalidError("the partition value is too long, or contains U+0000", field="partition")
    try:
        partition_filter(words)
    except InvalidError as error:
        return error
    return None
