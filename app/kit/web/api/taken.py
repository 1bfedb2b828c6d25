"""Request bodies made from structs: strict models with the fields and defaults of a struct, and the struct as result.

`Taken[PipelineDefinition]` is a field of a request body. Its value is the struct. A field that the struct gains is
taken without a change here; bounds and descriptions are declared beside `@takes`.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec
from pydantic import AfterValidator, BaseModel, Field, JsonValue, create_model

from app.kit.web.api.bodies import Given
from app.kit.web.api.shown import stands_for
from app.kit.web.api.structs import SEQUENCES, contents_of, default_of, field_of, is_struct, named_fields, tag_of

T = TypeVar("T")
C = TypeVar("C")

Count = Annotated[int, Field(ge=-(2**31), lt=2**31)]
"""Bounds of the database, for each int without other ones. The domain checks what is sensible, with the reason."""

_models: dict[Any, type[BaseModel]] = {}
_by_hand: dict[type[BaseModel], Callable[[Any], object]] = {}


def takes(struct: Any, *, example: dict[str, Any] | None = None) -> Callable[[type[C]], type[C]]:
    """Replace the class by the request model of `struct`. The class gives the schema's name and description.

    In the class, `field = "..."` is the description of a field, and `field: type` its type with bounds. Structs that
    `struct` contains are declared before it. Raises TypeError for a field that the struct does not have.
    """

    def declare(declaration: type[C]) -> type[C]:
        _models[struct] = _build(struct, declaration, example)
        stands_for(struct, _models[struct])
        return cast("type[C]", _models[struct])

    return declare


def takes_by_hand(
    struct: Any, model: type[BaseModel], *, taken: Callable[[Any], object], shown: Callable[[Any], object]
) -> None:
    """Take and show `struct` as `model`, which is written by hand."""
    _models[struct] = model
    _by_hand[model] = taken
    stands_for(struct, model, shown)


if TYPE_CHECKING:
    Taken = Annotated[T, "the model of T"]
else:

    class Taken:
        """`Taken[Struct]` is the struct for the type checker, and for pydantic its model, which becomes the struct."""

        def __class_getitem__(cls, struct: Any) -> Any:
            return Annotated[_taken_type(struct), AfterValidator(lambda model: _struct_of(model, struct))]


def _build(struct: Any, declaration: type, example: dict[str, Any] | None) -> type[BaseModel]:
    words, types_of = contents_of(declaration)
    found = named_fields(struct)
    if unknown := (words.keys() | types_of.keys()) - found.keys():
        raise TypeError(f"{declaration.__module__}: {struct} has no field {', '.join(sorted(unknown))}")
    fields: dict[str, Any] = {}
    tag_field, tag = tag_of(struct)
    if tag_field is not None:
        fields[tag_field] = (Literal[tag], ...)
    for name, field in found.items():
        default = default_of(field)
        if is_struct(type(default)):
            default = _models[type(default)].model_validate_json(msgspec.json.encode(default))
        elif isinstance(default, tuple):
            default = list(default)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - of any
        fields |= field_of(name, types_of.get(name) or _taken_type(field.type), default, words.get(name))
    base = Given
    if example is not None:
        base = create_model("WithExample", __base__=Given)
        base.model_config["json_schema_extra"] = {"examples": [example]}
    return create_model(
        declaration.__name__, __base__=base, __module__=declaration.__module__, __doc__=declaration.__doc__, **fields
    )


def _taken_type(hint: Any) -> Any:
    """The type with strict models for structs. Raises TypeError for a struct without a declaration."""
    if is_struct(hint):
        if hint not in _models:
            raise TypeError(f"{hint} is taken without a declaration: its fields would have no bounds")
        return _models[hint]
    if hint is int:
        return Count
    if hint is Any:
        return JsonValue
    if isinstance(hint, enum.EnumType):
        return Annotated[hint, Field(strict=False)]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        together = Union[tuple(_taken_type(one) for one in arguments)]  # noqa: UP007 - of a tuple
        tagged = all(is_struct(one) for one in arguments)
        return Annotated[together, Field(discriminator=tag_of(arguments[0])[0])] if tagged else together
    if origin in SEQUENCES:
        return list[_taken_type(arguments[0])]
    if origin is dict:
        return dict[arguments[0], _taken_type(arguments[1])]
    return hint


def _struct_of(model: BaseModel, struct: Any) -> object:
    """The struct that the model was checked for. Its meaning is checked in the domain."""
    if type(model) in _by_hand:
        return _by_hand[type(model)](model)
    return msgspec.convert(model.model_dump(mode="json", by_alias=True), struct)
