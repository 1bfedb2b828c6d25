"""Reset the offsets of a stopped pipeline: a preview of every partition, then the reset with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from app.core.access.signed_in import may
from app.core.pipelines.pages.tabs import tabs_of
from app.core.pipelines.store import PipelineStore
from app.core.runs.offset_reset import (
    OffsetChange,
    OffsetTarget,
    OffsetTargetKind,
    PartitionOffset,
    effects_of,
    parse_partition_offset,
)
from app.core.runs.service import offsets
from app.core.runs.store.runs import RunStore
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, InvalidError, NotFoundError
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.screen import Look, Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Text = Annotated[str, Form(max_length=1000)]
_MOST_TEXT = 200_000
_KINDS = {
    OffsetTargetKind.TIMESTAMP: "A time",
    OffsetTargetKind.EARLIEST: "The earliest offset",
    OffsetTargetKind.LATEST: "The end (latest)",
    OffsetTargetKind.OFFSETS: "Named offsets",
    OffsetTargetKind.RECORDED: "Recorded, for missing offsets",
}
_BACK = {
    "1 hour": timedelta(hours=1),
    "6 hours": timedelta(hours=6),
    "1 day": timedelta(days=1),
    "7 days": timedelta(7),
}


def looking_at(wiring: Wiring, name: str, kind: OffsetTargetKind | None, at: str, named: str) -> Look:
    """The page of a target; without one, only its choice."""

    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        pipeline = await uow.of(PipelineStore).get(name)
        run = await uow.of(RunStore).find_live(name)
        changes: list[OffsetChange] | None = None
        refusal = ""
        if kind is not None:
            try:
                target = target_of(kind, at=at, named=named)
                changes = await offsets.preview_offset_reset(uow, wiring.brokers, pipeline=name, target=target)
            except NotFoundError:
                raise
            except FencelineError as error:
                refusal = error.message
        context = {
            "name": name,
            "group": pipeline.definition.group_id,
            "cluster": pipeline.cluster,
            "run": run,
            "kind": kind,
            "kinds": [(one.value, words) for one, words in _KINDS.items()],
            "at": at,
            "named": named,
            "back": {words: _written(now - span) for words, span in _BACK.items()},
            "changes": changes,
            "effects": effects_of(changes or ()),
            "expected": _expected_text(changes or ()),
            "refusal": refusal,
        }
        tabs = await tabs_of(uow, name, "reset-offsets")
        return Screen(template="pipelines/reset", title=f"Reset offsets of {name}", context=context, tabs=tabs)

    return look


def target_of(kind: OffsetTargetKind, *, at: str, named: str) -> OffsetTarget:
    """Read the form. A time without a zone is UTC. Raises InvalidError, at the field `at` or `named`."""
    if kind is OffsetTargetKind.TIMESTAMP:
        try:
            found = datetime.fromisoformat(at.strip())
        except ValueError:
            raise InvalidError(f"{at.strip() or 'nothing'} is not a time: 2026-01-31T14:03", field="at") from None
        return OffsetTarget(kind=kind, timestamp=found if found.tzinfo is not None else found.replace(tzinfo=UTC))
    if kind is not OffsetTargetKind.OFFSETS:
        return OffsetTarget(kind=kind)
    return OffsetTarget(kind=kind, offsets=tuple(_named_offset(line) for line in named.split()))


def _named_offset(text: str) -> PartitionOffset:
    found = parse_partition_offset(text)
    if found is None:
        raise InvalidError(f"{text} is not of the form TOPIC:PARTITION=OFFSET", field="named")
    return found


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")


def _expected_text(changes: Sequence[OffsetChange]) -> str:
    return " ".join(f"{one.topic}:{one.partition}={'' if one.committed is None else one.committed}" for one in changes)


def _expected_of(text: str) -> list[OffsetChange]:
    """Read the text of `_expected_text`."""
    found: list[OffsetChange] = []
    for one in text.split():
        is_unset = one.endswith("=")
        read = parse_partition_offset(f"{one}0" if is_unset else one)
        if read is None:
            raise InvalidError("the preview of this form is damaged: show it again", field="expected")
        found.append(
            OffsetChange(
                topic=read.topic,
                partition=read.partition,
                committed=None if is_unset else read.offset,
                target=0,
                earliest=0,
                end=0,
            )
        )
    return found


@router.get("/pipelines/{name}/reset-offsets")
async def show(
    request: Request,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.RESET_OFFSETS)],
    name: str,
    kind: Annotated[OffsetTargetKind | None, Query()] = None,
    at: Annotated[str, Query(max_length=100)] = "",
    named: Annotated[str, Query(max_length=_MOST_TEXT)] = "",
) -> Response:
    return await screen.page(request, wiring, by, looking_at(wiring, name, kind, at, named), is_live=False)


@router.post("/pipelines/{name}/reset-offsets")
async def reset(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.RESET_OFFSETS)],
    name: str,
    kind: Annotated[OffsetTargetKind, Form()],
    at: Annotated[str, Form(max_length=100)] = "",
    named: Annotated[str, Form(max_length=_MOST_TEXT)] = "",
    expected: Annotated[str | None, Form(max_length=_MOST_TEXT)] = None,
    why: Text = "",
) -> Response:
    """Reset the offsets as the preview showed; after a refused start, without one."""
    try:
        await offsets.reset_offsets(
            uow,
            wiring.brokers,
            pipeline=name,
            target=target_of(kind, at=at, named=named),
            expected=None if expected is None else _expected_of(expected),
            by=by,
            why=why,
            now=wiring.clock.now(),
        )
        await uow.commit()
    except FencelineError as error:
        look = looking_at(wiring, name, kind, at, named)
        return await screen.page(request, wiring, by, look, is_live=False, refused=error)
    return screen.see("pipelines", name, said="offsets-set")
