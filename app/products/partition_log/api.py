"""The raw batches of a partition."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from app.core.access.signed_in import Viewer
from app.core.journals.log_look import Landmark, parse_start
from app.core.wiring import WiringDep
from app.kit.page import MAX_LIMIT
from app.kit.web.api.documented import refusals
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import NameInPath
from app.products.partition_log.service import PartitionLog
from app.products.partition_log.web_looks import look_for

router = APIRouter(prefix="/clusters/{name}/topics/{topic}/partitions/{partition}", tags=["partition log"])


@router.get("/log", responses=refusals(404))
async def look_into_partition_log(
    name: NameInPath,
    topic: Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,249}$")],
    partition: Annotated[int, Path(ge=0, lt=2**31)],
    wiring: WiringDep,
    by: Viewer,
    start: Annotated[
        str,
        Query(
            alias="from",
            max_length=40,
            description="An offset, `start`, `lso` (the last stable offset), `end`, or a time with its zone.",
        ),
    ] = Landmark.END.value,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="The number of batches.")] = 50,
    *,
    keys: Annotated[bool, Query(description="Include the records' keys; for operators.")] = False,
    values: Annotated[bool, Query(description="Include their values and headers; for operators.")] = False,
) -> Shown[PartitionLog]:
    """List the batches of a log: producers, epochs, markers; what is open, committed and aborted.

    Keys and values are for operators, and each request for them is recorded in the command log.
    """
    return await look_for(
        by,
        wiring,
        cluster=name,
        topic=topic,
        partition=partition,
        start=parse_start(start),
        limit=limit,
        keys=keys,
        values=values,
    )
