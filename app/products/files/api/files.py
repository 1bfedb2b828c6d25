"""REST: the files of a pipeline with a file sink, from the committed references in its sink topic."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from app.core.access.signed_in import Viewer
from app.core.wiring import WiringDep
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import Moment, NameInPath
from app.kit.web.dependencies import Uow
from app.products.files.checkpoint import FileCheckpoint
from app.products.files.schema_history import SchemaInHistory
from app.products.files.service import showing
from app.products.files.service.showing import FileTotals
from app.products.files.written_file import FileFilter, WrittenFile, partition_filter

router = APIRouter(prefix="/pipelines/{name}/files", tags=["files"])
Partition = Annotated[
    list[Annotated[str, Field(max_length=4_000, pattern=r"^[^\x00=]+=[^\x00]*$")]],
    Query(
        max_length=20,
        description="`column=value`, such as `user=anna`; of several, all must match.",
    ),
]


@router.get("", responses=refusals(404))
async def list_files(
    name: NameInPath,
    uow: Uow,
    _: Viewer,
    partition: Partition = [],  # noqa: B006 - FastAPI takes it as the default and does not change it
    since: Annotated[Moment | None, Query(description="Earliest `referenced_at`.")] = None,
    until: Annotated[Moment | None, Query(description="Latest `referenced_at`, excluded.")] = None,
    after: After = None,
    limit: Limit = 50,
) -> Shown[Page[WrittenFile]]:
    """List files, newest reference first. Kept for 30 days, and at most the newest 100,000 of a pipeline."""
    wanted = FileFilter(partition=partition_filter(partition), since=since, until=until)
    page = await showing.list_files(uow, name, wanted, after=after, limit=limit)
    return Page(items=tuple(record.file for record in page.items), next_cursor=page.next_cursor)


@router.get("/totals", responses=refusals(404))
async def get_file_totals(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    _: Viewer,
    since: Annotated[
        Moment | None, Query(description="First hour. By default the last 7 days; 90 days are kept.")
    ] = None,
    limit: Limit = 50,
) -> Shown[FileTotals]:
    """Return files, records and bytes in total, by partition and by hour, with the progress of reading.

    `limit` applies to the partitions.
    """
    return await showing.totals_of(uow, name, limit=limit, hours_since=since, now=wiring.clock.now())


@router.get("/checkpoints", responses=refusals(404))
async def list_file_checkpoints(
    name: NameInPath, uow: Uow, _: Viewer, limit: Limit = 50
) -> Shown[Items[FileCheckpoint]]:
    """List the newest checkpoints with the durations of their phases. Kept for 30 days.

    They are known from references, so aborted checkpoints and those without a file are not listed.
    """
    found = await showing.checkpoints_of(uow, name, limit=limit)
    return Items(found)


@router.get("/schemas", responses=refusals(404))
async def list_file_schemas(name: NameInPath, uow: Uow, _: Viewer, limit: Limit = 50) -> Shown[Items[SchemaInHistory]]:
    """List the schemas of files, newest first, each with its changes since the previous one.

    Kept for 90 days after the last file with the schema.
    """
    found = await showing.schemas_of(uow, name, limit=limit)
    return Items(found)
