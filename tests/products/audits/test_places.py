"""By which id an audit that somebody asks for tells records apart."""

from __future__ import annotations

from app.products.audits.service.asking import Wish, id_problems, places_of
from app.products.audits.specification import Everything, Header, JsonField, RecordKey
from tests.support.audit_samples import BY_ID, plan

IN_INPUT = JsonField(path="id")
PLAN = plan(source_id_place=IN_INPUT)


def test_the_plan_says_what_nobody_else_does() -> None:
    assert places_of(Wish(window=Everything()), PLAN) == (BY_ID, IN_INPUT)
    assert places_of(Wish(window=Everything()), None) == (None, None)


def test_who_names_the_id_of_the_plan_means_its_place_in_the_input_too() -> None:
    """As the form on the page does, in which the plan's id stands already."""
    assert places_of(Wish(window=Everything(), id_place=BY_ID), PLAN) == (BY_ID, IN_INPUT)
    other = Header(name="trace")
    assert places_of(Wish(window=Everything(), id_place=BY_ID, source_id_place=other), PLAN) == (BY_ID, other)


def test_another_id_has_nothing_of_the_plan() -> None:
    assert places_of(Wish(window=Everything(), id_place=RecordKey()), PLAN) == (RecordKey(), None)


def test_records_in_files_are_known_by_a_field_and_their_input_by_anything() -> None:
    for place in (RecordKey(), Header(name="trace")):
        assert [one.field for one in id_problems(place, None, writes_files=True)] == ["id_place"]
        assert id_problems(place, None, writes_files=False) == []
        assert id_problems(BY_ID, place, writes_files=True) == []
