"""The models of answers come from structs: fields, tags and properties, with what is declared beside them."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from pydantic import BaseModel, TypeAdapter

from app.kit.page import Page
from app.kit.web.api import shown
from app.kit.web.api.bodies import Answer
from app.kit.web.api.shown import FromStruct, Items, Shown, made, model_of, shows, stands_for
from tests.support.repeated_structs import structs_by_fields

AT = datetime(2026, 1, 31, 9, 0, 0, 250_000, tzinfo=UTC)


class Colour(enum.StrEnum):
    RED = "red"


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    secret: str = "s"


class Square(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="square"):
    side: float


class Circle(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="circle"):
    radius: float
    centre: Inner


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    """Of people who read the code."""

    name: str
    at: datetime
    colours: tuple[Colour, ...]
    inner: Inner
    by_name: dict[str, Inner]
    shape: Square | Circle
    perhaps: Square | Circle | None = None
    alone: Square
    pair: tuple[int, Inner]
    schema: dict[str, Any]
    described: Annotated[int, msgspec.Meta(description="In bits.")]
    some: frozenset[int] = frozenset()

    @property
    def doubled(self) -> int:
        return 2 * self.described


OUTER = Outer(
    name="n",
    at=AT,
    colours=(Colour.RED,),
    inner=Inner(number=1),
    by_name={"a": Inner(number=2)},
    shape=Circle(radius=1.5, centre=Inner(number=3)),
    alone=Square(side=2),
    pair=(4, Inner(number=5)),
    schema={"type": "record"},
    described=8,
    some=frozenset({6}),
)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a test's declarations after it."""
    for name in ("_declared", "_stand_for", "_built"):
        monkeypatch.setattr(shown, name, dict(getattr(shown, name)))


def _json(hint: Any, record: object) -> Any:
    adapter = TypeAdapter[Any](hint)
    return json.loads(adapter.dump_json(adapter.validate_python(record, from_attributes=True), by_alias=True))


def test_a_struct_is_shown_as_msgspec_writes_it() -> None:
    assert _json(Shown[Outer], OUTER) == msgspec.json.decode(msgspec.json.encode(OUTER))


async def test_a_route_returns_the_struct_and_openapi_has_its_model() -> None:
    app = FastAPI()

    async def get() -> Shown[Page[Outer]]:
        return Page(items=(OUTER,), next_cursor=None)

    app.add_api_route("/outer", get, response_model=Shown[Page[Outer]])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answer = (await client.get("/outer")).json()
    schemas: dict[str, Any] = app.openapi()["components"]["schemas"]
    assert answer == {"items": [msgspec.json.decode(msgspec.json.encode(OUTER))], "next_cursor": None}
    assert {"OuterPage", "Outer", "Inner", "Square", "Circle", "Colour"} <= schemas.keys()
    assert schemas["Outer"]["properties"]["shape"] == {
        "discriminator": {
            "mapping": {"circle": "#/components/schemas/Circle", "square": "#/components/schemas/Square"},
            "propertyName": "kind",
        },
        "oneOf": [{"$ref": "#/components/schemas/Square"}, {"$ref": "#/components/schemas/Circle"}],
        "title": "Shape",
    }
    assert schemas["Outer"]["properties"]["described"]["description"] == "In bits."


def test_a_new_field_of_a_struct_is_in_the_schema_and_in_the_answer() -> None:
    grown = msgspec.defstruct("Grown", [("new", int)], bases=(Inner,), kw_only=True)
    assert _json(Shown[grown], grown(number=1, new=2)) == {"number": 1, "secret": "s", "new": 2}
    assert model_of(grown).model_json_schema()["required"] == ["number", "secret", "new"]


def test_a_declaration_names_describes_and_leaves_out() -> None:
    @shows(Outer, without=("inner", "by_name", "shape", "perhaps", "pair", "alone"), optional=("some",))
    class Told:  # pyright: ignore[reportUnusedClass] - only its declaration is used
        """For those who call the API."""

        name = "As it was given."
        doubled = "Twice the bits."
        described: float

    schema = model_of(Outer).model_json_schema(by_alias=True)
    assert schema["title"] == "Told"
    assert schema["description"] == "For those who call the API."
    assert schema["properties"]["name"]["description"] == "As it was given."
    assert schema["properties"]["doubled"] == {
        "description": "Twice the bits.",
        "title": "Doubled",
        "type": "integer",
    }
    assert schema["properties"]["some"]["default"] == []
    assert schema["required"] == ["name", "at", "colours", "schema", "described", "doubled"]
    assert _json(Shown[Outer], OUTER) == {
        "name": "n",
        "at": "2026-01-31T09:00:00.250000Z",
        "colours": ["red"],
        "schema": {"type": "record"},
        "described": 8.0,
        "doubled": 16,
        "some": [6],
    }


def test_a_field_of_any_type_is_shown_as_the_json_that_msgspec_writes() -> None:
    free = msgspec.defstruct("Free", [("of_any", Any), ("by_name", dict[str, Any])])
    data = ((Colour.RED, AT), {"inner": Inner(number=1)}, None)
    expected = [["red", "2026-01-31T09:00:00.250000Z"], {"inner": {"number": 1, "secret": "s"}}, None]
    assert _json(Shown[free], free(data, {"a": data})) == {"of_any": expected, "by_name": {"a": expected}}

    declared = msgspec.defstruct("FreeToo", [("of_any", Any)])

    @shows(declared)
    class Declared:  # pyright: ignore[reportUnusedClass] - only its declaration is used
        of_any: shown.Json

    assert _json(Shown[declared], declared(data)) == {"of_any": expected}


def test_a_field_is_made_of_the_struct_wherever_it_is_nested() -> None:
    def in_words(inner: Inner) -> str:
        return f"{inner.number} in words"

    @shows(Inner, without=("secret",))
    class WithWords:  # pyright: ignore[reportUnusedClass] - only its declaration is used
        words: str = made(in_words)

    inner = Inner(number=1)
    expected = {"number": 1, "words": "1 in words"}
    assert _json(Shown[Inner], inner) == expected
    assert _json(Shown[Items[Inner]], Items((inner,))) == {"items": [expected]}
    assert model_of(Inner).of(inner, words="others").model_dump() == {"number": 1, "words": "others"}
    assert model_of(Inner).model_json_schema()["required"] == ["number", "words"]


def test_a_list_without_pages_has_its_own_name() -> None:
    assert model_of(Items[Inner]).__name__ == "InnerList"
    assert _json(Shown[Items[Inner]], Items((Inner(number=1),))) == {"items": [{"number": 1, "secret": "s"}]}


def test_a_model_written_by_hand_stands_for_a_struct_wherever_it_is_nested() -> None:
    class Short(Answer):
        text: str

    stands_for(Inner, Short, lambda inner: Short(text=str(inner.number)))
    stands_for(Circle, Short, lambda circle: Short(text=str(circle.radius)))
    assert _json(Shown[Items[Inner]], Items((Inner(number=1),))) == {"items": [{"text": "1"}]}
    assert _json(Shown[Circle], OUTER.shape) == {"text": "1.5"}


@pytest.mark.parametrize("fault", [{"without": ("numbre",)}, {"optional": ("number", "numbre")}])
def test_a_declaration_about_what_is_not_there_is_an_error(fault: dict[str, Any]) -> None:
    @shows(Inner, **fault)
    class Wrong:  # pyright: ignore[reportUnusedClass] - only its declaration is used
        pass

    with pytest.raises(TypeError, match=r"Wrong: .*Inner.* has no field numbre"):
        model_of(Inner)


def test_describing_what_is_not_there_is_an_error() -> None:
    @shows(Inner)
    class Wrong:  # pyright: ignore[reportUnusedClass] - only its declaration is used
        numbre = "Its number."

    with pytest.raises(TypeError, match="has no field numbre"):
        model_of(Inner)


def test_a_declaration_that_comes_too_late_is_an_error() -> None:
    model_of(Outer)
    with pytest.raises(TypeError, match="has a model already"):
        shows(Inner, without=("secret",))(type("Late", (), {}))


def test_a_second_declaration_is_an_error() -> None:
    shows(Inner, without=("secret",))(type("First", (), {}))
    with pytest.raises(TypeError, match="has a model already"):
        stands_for(Inner, Answer)


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="number"):
        _json(Shown[Inner], Inner(number="many"))  # pyright: ignore[reportArgumentType] - the fault


def test_every_declaration_of_the_api_fits_its_struct() -> None:
    for struct in shown._declared:  # pyright: ignore[reportPrivateUsage] - all of them
        assert issubclass(model_of(struct), Answer)


REPEATS = {
    "Member": "no assignment is shown as an empty list",
    "PartitionsOfTopic": "the second name of TopicPartitions in OpenAPI, where no assignment is an empty list",
}
"""Models written by hand that have the fields of a struct, with the reason."""


def test_no_model_written_by_hand_repeats_a_struct() -> None:
    structs = structs_by_fields()
    repeating = {
        model.__name__: structs[fields]
        for model in _below(Answer)
        if not issubclass(model, FromStruct) and model.__module__.startswith("app.")
        if (fields := frozenset(model.model_fields)) in structs
    }
    assert repeating.keys() == REPEATS.keys(), repeating


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in model.__subclasses__():
        yield child
        yield from _below(child)
