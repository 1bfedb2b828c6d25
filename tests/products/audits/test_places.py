"""The place of the record id in a requested audit."""

from __future__ import annotations

from app.core.pipelines.pipeline import FileSink
from app.products.audits.service.asking import NOTHING_MORE, Wish, id_problems, places_of
from app.products.audits.specification import Everything, HeaderId, IdPlace, JsonField, RecordKey
from tests.support.audit_samples import BY_ID, plan
from tests.support.definitions import a_definition

IN_INPUT = JsonField(path="id")
PLAN = plan(source_id_place=IN_INPUT)


def test_plan_gives_the_place_that_the_request_omits() -> None:
    assert places_of(Wish(window=Everything()), PLAN) == (BY_ID, IN_INPUT)
    assert places_of(Wish(window=Everything()), None) == (None, None)


def test_id_of_the_plan_implies_its_place_in_the_input() -> None:
    """The form on the page begins with the plan's id."""
    assert places_of(Wish(window=Everything(), id_place=BY_ID), PLAN) == (BY_ID, IN_INPUT)
    other = HeaderId(name="trace")
    assert places_of(Wish(window=Everything(), id_place=BY_ID, source_id_place=other), PLAN) == (BY_ID, other)


def test_another_id_ignores_the_plan() -> None:
    assert places_of(Wish(window=Everything(), id_place=RecordKey()), PLAN) == (RecordKey(), None)


def test_files_require_a_field_as_id_and_inputs_do_not() -> None:
    def fields(id_place: IdPlace, source_id_place: IdPlace | None, files: FileSink | None) -> list[str | None]:
        problems = id_problems(
            id_place, source_id_place, definition=a_definition(files=files), comparison=None, allowed=NOTHING_MORE
        )
        return [one.field for one in problems]

    for place in (RecordKey(), HeaderId(name="trace")):
        assert fields(place, None, FileSink(root="file:///files")) == ["id_place"]
        assert fields(place, None, None) == []
        assert fields(BY_ID, place, FileSink(root="file:///files")) == []
