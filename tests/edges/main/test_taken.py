"""The models of request bodies come from structs: strict, closed, with their defaults. The struct is the result."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.api import offset_schemas as offsets
from app.core.runs.offset_reset import OffsetTarget, OffsetTargetKind
from app.kit.web.api import shown, taken
from app.kit.web.api.bodies import Given
from app.kit.web.api.taken import Taken, takes, takes_by_hand
from app.products.audits import schemas as audits
from tests.support.repeated_structs import structs_by_fields


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Square(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="square"):
    side: int


class Circle(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="circle"):
    radius: int = 1


class Order(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    colour: Colour = Colour.RED
    shapes: tuple[Square | Circle, ...] = ()
    first: Square | Circle = Circle()
    labels: dict[str, str] = {}
    schema: dict[str, Any] | None = None


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a test's declarations after it."""
    for module, names in ((shown, ("_declared", "_stand_for", "_built")), (taken, ("_models", "_by_hand"))):
        for name in names:
            monkeypatch.setattr(module, name, dict(getattr(module, name)))
    takes(Square)(type("SquareGiven", (), {}))
    takes(Circle)(type("CircleGiven", (), {}))


def _declare(struct: Any) -> None:
    @takes(struct, example={"name": "n"})
    class OrderGiven:  # pyright: ignore[reportUnusedClass] - only its declaration is used
        """What is wanted."""

        name: Annotated[str, Field(max_length=3)]
        colour = "Of all shapes."


def _taken(struct: Any, sent: object) -> Any:
    hint: Any = Taken
    return TypeAdapter[Any](hint[struct]).validate_python(sent)


def test_omitted_fields_have_the_default_of_the_struct() -> None:
    _declare(Order)
    assert _taken(Order, {"name": "n"}) == Order(name="n")


def test_every_field_arrives_in_the_struct_as_it_was_sent() -> None:
    _declare(Order)
    sent = {
        "name": "n",
        "colour": "blue",
        "shapes": [{"kind": "square", "side": 2}, {"kind": "circle", "radius": 3}],
        "first": {"kind": "square", "side": 4},
        "labels": {"a": "b"},
        "schema": {"type": "record"},
    }
    found = _taken(Order, sent)
    assert isinstance(found, Order)
    assert msgspec.to_builtins(found) == {**sent, "shapes": tuple(sent["shapes"])}


def test_a_new_field_of_a_struct_is_taken() -> None:
    grown = msgspec.defstruct("Grown", [("new", int, 5)], bases=(Order,), kw_only=True)
    _declare(grown)
    assert _taken(grown, {"name": "n", "new": 6}).new == 6
    assert _taken(grown, {"name": "n"}).new == 5


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"other": 1}, "extra_forbidden"),
        ({"colour": "green"}, "enum"),
        ({"labels": {"a": 1}}, "string_type"),
        ({"name": "long"}, "string_too_long"),
        ({"first": {"kind": "square", "side": "2"}}, "int_type"),
        ({"first": {"kind": "square", "side": 2**31}}, "less_than"),
        ({"first": {"kind": "line"}}, "union_tag_invalid"),
        ({"first": {"side": 1}}, "union_tag_not_found"),
    ],
)
def test_a_body_is_strict_and_closed(more: dict[str, Any], kind: str) -> None:
    _declare(Order)
    with pytest.raises(ValidationError) as refused:
        _taken(Order, {"name": "n", **more})
    assert [error["type"] for error in refused.value.errors()] == [kind]


def test_openapi_has_words_defaults_and_the_example() -> None:
    _declare(Order)
    schema = TypeAdapter[Any](Taken[Order]).json_schema()
    assert schema["title"] == "OrderGiven"
    assert schema["description"] == "What is wanted."
    assert schema["examples"] == [{"name": "n"}]
    assert schema["required"] == ["name"]
    assert schema["properties"]["colour"] == {
        "$ref": "#/$defs/Colour",
        "default": "red",
        "description": "Of all shapes.",
    }
    assert schema["properties"]["first"]["default"] == {"kind": "circle", "radius": 1}


def test_the_answer_shows_the_same_model() -> None:
    _declare(Order)
    adapter = TypeAdapter[Any](shown.Shown[Order])
    order = Order(name="n", shapes=(Square(side=1),))
    assert adapter.json_schema()["title"] == "OrderGiven"
    assert adapter.dump_python(adapter.validate_python(order), mode="json", by_alias=True) == msgspec.json.decode(
        msgspec.json.encode(order)
    )


def test_a_struct_within_has_a_declaration_of_its_own() -> None:
    class Inner(msgspec.Struct):
        number: int

    outer = msgspec.defstruct("Outer", [("inner", Inner)])
    with pytest.raises(TypeError, match=r"Inner.* is taken without a declaration"):
        takes(outer)(type("OuterGiven", (), {}))


def test_a_declaration_of_a_field_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TypeError, match="has no field colours"):
        takes(Order)(type("Wrong", (), {"colours": "Of all shapes."}))


def test_a_model_written_by_hand_becomes_its_struct() -> None:
    class Line(msgspec.Struct, frozen=True):
        length_ms: int

    class LineGiven(Given):
        length_s: int

    takes_by_hand(
        Line,
        LineGiven,
        taken=lambda given: Line(given.length_s * 1000),
        shown=lambda line: LineGiven(length_s=line.length_ms // 1000),
    )
    assert _taken(Line, {"length_s": 2}) == Line(2000)
    assert TypeAdapter[Any](shown.Shown[Line]).validate_python(Line(3000)) == LineGiven(length_s=3)


@pytest.mark.parametrize("start", [1_769_850_000, None, True, "1769850000", "09:00"])
def test_a_moment_that_is_not_written_out_is_refused(start: object) -> None:
    sent = {"kind": "time", "start": start, "end": "2026-01-31T09:00:00Z"}
    with pytest.raises(ValidationError, match="expected a date and a time with its zone"):
        audits.AuditGiven.model_validate({"window": sent})


REPEATS = {
    "OffsetTarget": "OffsetResetGiven adds fields to the body itself; its defaults are compared below",
    "ExpectedOffset": "it is no stale offset, though its fields are the same",
}
"""Models written by hand that have the fields of a struct, with the reason."""


def test_no_body_written_by_hand_repeats_a_struct() -> None:
    structs = structs_by_fields()
    made = set(taken._models.values())  # pyright: ignore[reportPrivateUsage] - all of them
    repeating = {
        model.__name__: structs[fields]
        for model in _below(Given)
        if model not in made and model.__module__.startswith("app.")
        if (fields := frozenset(model.model_fields)) in structs
    }
    assert repeating.keys() == REPEATS.keys(), repeating


def test_an_offset_target_has_the_defaults_of_the_struct() -> None:
    kind = OffsetTargetKind.EARLIEST
    assert offsets.OffsetTarget.model_validate({"kind": kind}).to_domain() == OffsetTarget(kind=kind)


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in model.__subclasses__():
        yield child
        yield from _below(child)


def test_a_definition_at_its_fullest_survives_the_edge() -> None:
    """Every kind of step, and every field off its default, arrives in the domain as it was sent."""
    sent = {
        "cluster": "c",
        "source_topics": ["a", "b"],
        "group_id": "g",
        "sink_topic": "s",
        "start_position": "latest",
        "group_protocol": "consumer",
        "transactional_id_prefix": "x",
        "transform": {
            "kind": "steps",
            "steps": [
                {"op": "filter", "field": "a.b", "operator": "in", "value": [1, "2", None, True, 1.5]},
                {"op": "condition", "expression": "record.a > 1"},
                {"op": "project", "fields": ["a", "b"]},
                {"op": "rename", "field": "a", "to": "b"},
                {"op": "set", "field": "a", "value": {"deep": [1]}},
                {"op": "route", "field": "a", "operator": "eq", "value": "x", "topic": "t"},
            ],
        },
        "errors": {"policy": "dead_letter", "dead_letter_topic": "d", "max_bad": 1, "window_records": 2},
        "files": {
            "root": "s3://b/p",
            "partition_by": [
                {"of": "field", "name": "user", "field": "user.id"},
                {"of": "date", "name": "day"},
                {"of": "hour", "name": "hour"},
            ],
            "event_time": "at",
            "codec": "deflate",
            "rotate_ms": 1,
            "max_file_mb": 2,
            "upload_timeout_ms": 3,
            "conflict": "bad_record",
            "schema": {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "long"]}]},
            "id_field": "id",
            "verifies": True,
        },
        "processing_guarantee": "at_least_once",
        "offset_fencing": "group_only",
        "commit_interval_ms": 1,
        "transaction_timeout_ms": 2,
        "session_timeout_ms": 3,
        "instances": 4,
        "tasks_per_instance": 5,
        "spark": {"master": "local[2]", "executor_memory_mb": 6, "conf": {"k": "v"}},
        "consumer_overrides": {"a": "1"},
        "producer_overrides": {"b": "2"},
        "allows_drills": True,
    }
    taken = TypeAdapter[PipelineDefinition](Taken[PipelineDefinition]).validate_python(sent)
    assert isinstance(taken, PipelineDefinition)
    assert msgspec.json.decode(msgspec.json.encode(taken)) == sent
