"""The issues that products find: the function of each product finds its own one, and no other function does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from app.core.overview import service as overview
from app.core.overview.product_views import NeedsOf
from app.core.pipelines.pipeline import FileSink
from app.core.pipelines.pipeline_record import Pipeline
from app.core.runs.needs import Need, NeedSeverity
from app.products.audits.audit import MARKED_FOR as AUDITS_MARKED_FOR
from app.products.audits.service.needs import audit_needs
from app.products.audits.store import AuditStore
from app.products.files.reading import MARKED_FOR as FILES_MARKED_FOR
from app.products.files.reading import FileWatchState
from app.products.files.service.needs import repeated_file_needs
from app.products.files.store.readings import FileReadingStore
from app.products.offset_log.record import MARKED_FOR
from app.products.offset_log.service import contradiction_needs
from app.products.offset_log.store import OffsetLogStore
from tests.support import page_samples as samples
from tests.support.control_plane import ControlPlane
from tests.support.needs import NEEDS
from tests.support.unit_of import UnitOf

NOW = samples.NOW
PLAIN = samples.pipeline(None)
WRITES_FILES = replace(PLAIN, definition=replace(PLAIN.definition, files=FileSink(root="file:///tables/flights")))
WATCH = FileWatchState(since=NOW, repeated=2, repeated_at=NOW)


class Stores:
    """The three stores: each knows of something wrong with `flights` since `at`."""

    def __init__(self, *, at: datetime = NOW, watch: FileWatchState = WATCH) -> None:
        self._at = at
        self._watch = watch

    async def broken(self, *, since: datetime) -> Mapping[str, int]:
        return {PLAIN.name: 1} if self._at >= since else {}

    async def contradicted(self, *, since: datetime) -> Mapping[str, int]:
        return {PLAIN.name: 3} if self._at >= since else {}

    async def watches(self, pipelines: Collection[str]) -> Mapping[str, FileWatchState]:
        return dict.fromkeys(pipelines, self._watch)

    def unit(self) -> UnitOf:
        return UnitOf({AuditStore: self, OffsetLogStore: self, FileReadingStore: self})


@pytest.mark.parametrize(
    ("needs", "page"),
    [(contradiction_needs, "offsets"), (audit_needs, "audits"), (repeated_file_needs, "files")],
)
async def test_without_its_function_a_product_has_no_issues(needs: NeedsOf, page: str) -> None:
    assert needs in NEEDS
    pages = {
        one: [need.explained for need in (await one(Stores().unit(), [WRITES_FILES], NOW))[PLAIN.name]] for one in NEEDS
    }
    assert pages[needs] == [page]
    assert page not in [other for one in NEEDS if one is not needs for other in pages[one]]


@pytest.mark.parametrize(("needs", "kept_for"), [(contradiction_needs, MARKED_FOR), (audit_needs, AUDITS_MARKED_FOR)])
async def test_need_ends_after_some_days(needs: NeedsOf, kept_for: timedelta) -> None:
    unit = Stores().unit()
    assert await needs(unit, [PLAIN], NOW + kept_for)
    assert not await needs(unit, [PLAIN], NOW + kept_for + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("pipeline", "watch", "later"),
    [
        (PLAIN, WATCH, timedelta(0)),
        (WRITES_FILES, replace(WATCH, repeated=0), timedelta(0)),
        (WRITES_FILES, replace(WATCH, repeated_at=None), timedelta(0)),
        (WRITES_FILES, WATCH, FILES_MARKED_FOR),
    ],
)
async def test_files_tell_nothing_without_a_new_repetition(
    pipeline: Pipeline, watch: FileWatchState, later: timedelta
) -> None:
    assert not await repeated_file_needs(Stores(watch=watch).unit(), [pipeline], NOW + later)


async def test_pages_show_the_needs_of_products_in_the_order_of_the_functions(plane: ControlPlane) -> None:
    await plane.pipeline("flights")
    await plane.pipeline("orders")

    def telling(sentence: str) -> NeedsOf:
        async def needs(uow: object, pipelines: Sequence[Pipeline], now: datetime) -> Mapping[str, Sequence[Need]]:
            del uow, pipelines, now
            return {"flights": (Need(pipeline="flights", run_id=None, severity=NeedSeverity.WRONG, sentence=sentence),)}

        return needs

    asked = (telling("first"), telling("second"))
    async with plane.uow() as uow:
        seen = await overview.overview(uow, needs=asked, now=plane.now)
        page = await overview.pipeline_page(uow, "flights", needs=asked, now=plane.now)
        other = await overview.pipeline_page(uow, "orders", needs=asked, now=plane.now)
        nothing = await overview.overview(uow, needs=(), now=plane.now)
    assert [need.sentence for need in seen.needs] == ["first", "second"]
    assert [need.sentence for need in page.line.needs] == ["first", "second"]
    assert (other.line.needs, nothing.needs) == ((), ())
