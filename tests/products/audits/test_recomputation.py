"""Recomputations on the server: refusals by the definition, the order, its jars, and requests of operators."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from app.core.pipelines.pipeline import Identity, OutputMode, StartPosition, Transform
from app.core.wire import protocol
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role
from app.kit.errors import InvalidError
from app.products.audits import wire
from app.products.audits.comparison import Comparison, Recomputation, TopicBaseline
from app.products.audits.comparison_form import OF_PROBLEMS
from app.products.audits.doubts import InForce, doubts_of
from app.products.audits.recomputation import recomputation_problems
from app.products.audits.result import AuditCounts, AuditVerdict, EventTimes, GapReason, verdict
from app.products.audits.service import asking, carrying_out
from app.products.audits.service.asking import Wish
from app.products.audits.specification import (
    DroppedRows,
    Everything,
    HeaderId,
    IdPlace,
    JsonField,
    OffsetRange,
    OffsetWindow,
    RecordKey,
    specification_of,
)
from app.products.audits.submission import is_recomputation
from app.products.audits.telling import verdict_sentence
from app.products.audits.words import event_time_words
from tests.products.audits.test_doubts import revision
from tests.products.audits.test_pages import FORM, PAGE
from tests.support.audit_samples import result
from tests.support.control_plane import ANNA, ControlPlane
from tests.support.definitions import a_definition
from tests.support.queries import QUERY, progress, report, running_query, send
from tests.support.wiring import browser_of

RECOMPUTATION = Comparison(baseline=Recomputation(), time_field="hour")
EVENTS = msgspec.structs.replace(QUERY, output_mode=OutputMode.APPEND)


def problems(
    transform: Transform = EVENTS, *, id_place: IdPlace = RecordKey(), source_id_place: IdPlace | None = None,  # noqa: B008
    **rules: Any,
) -> list[str | None]:  # fmt: skip
    comparison = msgspec.structs.replace(RECOMPUTATION, **rules)
    definition = a_definition(transform=transform)
    return [one.field for one in recomputation_problems(comparison, definition, id_place, source_id_place)]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"transform": Identity()}, "comparison.baseline"),
        ({"transform": msgspec.structs.replace(EVENTS, output_mode=OutputMode.COMPLETE)}, "comparison.baseline"),
        ({"time_field": None}, "comparison.time_field"),
        ({"baseline_time_field": "at"}, "comparison.baseline_time_field"),
        ({"id_place": HeaderId(name="id")}, "id_place"),
        ({"source_id_place": JsonField(path="id")}, "source_id_place"),
    ],
)
def test_what_the_definition_excludes_is_refused_at_its_field(given: dict[str, Any], field: str) -> None:
    assert problems() == []
    assert problems(**given) == [field]
    assert any(field.startswith(known) for known in OF_PROBLEMS), "the form has a place for it"


def test_order_has_the_query_and_the_version_of_dataframes() -> None:
    found = specification_of(
        a_definition(transform=EVENTS, source_topics=("in",)),
        audit_id="a",
        pipeline="p",
        revision=1,
        window=Everything(),
        id=RecordKey(),
        comparison=RECOMPUTATION,
        transform_source="text",
    )
    assert (found.transform, found.transform_source, found.source_topics) == (EVENTS, "text", ("in",))
    assert found.comparison is not None
    assert found.comparison.baseline_time_field == "hour"
    assert is_recomputation(found), "the application gets the jars of the connector"
    order = wire.AuditOrder(fenceline_version="1", specification=found, client_config={})
    decoded = wire.decode(wire.encode(order))
    assert decoded.protocol_version == protocol.DATAFRAMES
    assert decoded.specification == found


def test_a_revision_with_other_rows_is_a_gap_and_other_settings_are_none() -> None:
    def doubts(**changes: Any) -> list[GapReason]:
        other = revision(2, transform=msgspec.structs.replace(EVENTS, **changes))
        judged_by = revision(1, transform=EVENTS, start_position=StartPosition.EARLIEST)
        return [one.reason for one in doubts_of(Everything(), InForce(), judged_by=judged_by, others=[other])]

    assert doubts(sql="SELECT 1") == [GapReason.REVISION_CHANGED]
    assert doubts(trigger_ms=9_000, checkpoint="file:///elsewhere") == []


def test_without_a_comparable_row_nothing_is_equal() -> None:
    compared = EventTimes(start_ms=5, end_ms=5)
    nothing = result(counts=AuditCounts(not_comparable=3), baseline="the recomputation", compared=compared)
    assert verdict(nothing) is AuditVerdict.NOT_SHOWN
    assert verdict_sentence(nothing) == "Not shown. No row is comparable: 3 may depend on records beyond the range."
    assert event_time_words(compared) == "none"
    some = result(counts=AuditCounts(inputs=2, expected=2, outputs=2, not_comparable=1), baseline="the recomputation")
    assert verdict(some) is AuditVerdict.CLEAN
    sentence = "Both sides are equal: 2 records in the recomputation, 2 in the output; 1 more row not comparable."
    assert verdict_sentence(some) == sentence
    assert event_time_words(EventTimes(start_ms=None, end_ms=1_000)) == "from the beginning to 1970-01-01 00:00:01 UTC"


async def test_order_has_the_recorded_batches_with_late_rows(database: Database) -> None:
    plane = ControlPlane(database)
    run = await running_query(plane)
    batches = (progress(1, ended_at=plane.now, late_rows=0), progress(2, ended_at=plane.now, late_rows=7))
    await send(plane, report(run.id, *batches))
    window = OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=0, end=9),))
    wish = Wish(window=window, is_comparison=True, comparison=RECOMPUTATION, id_place=RecordKey())
    async with plane.uow() as uow:
        asked = await asking.ask_audit(
            uow, pipeline="flights", wish=wish, by=ANNA, why=None, now=plane.now + timedelta(minutes=1)
        )
        other = msgspec.structs.replace(wish, comparison=Comparison(baseline=TopicBaseline(topic="old")))
        with pytest.raises(InvalidError, match="requires a window of time"):
            await asking.ask_audit(uow, pipeline="flights", wish=other, by=ANNA, why=None, now=plane.now)
        order = await carrying_out.begin_submission(
            uow, asked.id, host="here", cores=1, fenceline_version="1", server_urls=(), now=plane.now
        )
    ended_at_ms = round(plane.now.timestamp() * 1000)
    assert order.specification.late_batches == (DroppedRows(ended_at_ms=ended_at_ms, rows=7),)


async def test_operator_requests_a_recomputation_and_an_author_plans_it(wiring: Wiring, database: Database) -> None:
    await ControlPlane(database).pipeline("flights", transform=EVENTS)
    form = {**FORM, "baseline": "recomputation", "id_place": "key", "time_field": "hour", "ignored_fields": ""}
    async with browser_of(wiring, Role.OPERATOR) as browser:
        assert "or recomputation" in (await browser.get(f"{PAGE}/compare")).text
        refused = await browser.post(f"{PAGE}/compare", data={**form, "time_field": "", "act": "once"})
        assert 'id="problem-time_field-1"' in refused.text
        asked = await browser.post(f"{PAGE}/compare", data={**form, "from": "everything", "act": "once"})
        address = asked.headers["location"].partition("?")[0]
        page = (await browser.get(address)).text
        assert "compared with the recomputation" in page
        assert "everything" in page
        assert (await browser.post(f"{PAGE}/compare", data={**form, "act": "plan"})).status_code == 403
    async with browser_of(wiring, Role.AUTHOR) as browser:
        planned = await browser.post(f"{PAGE}/compare", data={**form, "every": "1h", "act": "plan"})
        assert planned.headers["location"] == f"{PAGE}?said=comparison-planned"
        assert "With the recomputation, every 1h" in (await browser.get(PAGE)).text
