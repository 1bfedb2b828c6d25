"""By which id an audit that somebody asks for tells records apart."""

from __future__ import annotations

from app.domain.audits.specification import Everything, Header, JsonField, RecordKey
from app.services.auditing.asking import Wish, places_of
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
