"""Answers made from structs: one function builds, from a struct's fields, the model that OpenAPI and JSON show.

`Shown[Drill]` is the return type of a route that returns a `Drill`. A field that the struct gains is in the answer
without a change here. Differences from the struct are declared beside `@shows`, above all fields that must stay
inside: every other one is public.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from pydantic import BaseModel, BeforeValidator, Field, JsonValue, TypeAdapter, create_model

from app.kit.page import Page
from app.kit.web.api.bodies import Answer
from app.kit.web.api.structs import SEQUENCES, contents_of, default_of, field_of, is_struct, named_fields, tag_of

T = TypeVar("T")
C = TypeVar("C")


class FromStruct(Answer):
    """A model that is built here."""

    @classmethod
    def of(cls, record: object, **more: Any) -> Self:
        """From the struct, with `more` instead of some of its fields."""
        return cls.model_validate(_attributes(record) | more)


class Items(msgspec.Struct, Generic[T], frozen=True):
    """All of a list that has no pages."""

    items: Sequence[T]


class _Declared(msgspec.Struct, frozen=True):
    """A class under `@shows`: its name, words and extra fields."""

    of: type
    without: Set[str]
    optional: Set[str] | bool


class Made(msgspec.Struct, frozen=True):
    """A field that a function computes from the struct."""

    by: Callable[[Any], object]


def made(by: Callable[[Any], object]) -> Any:
    """In a class under `@shows`: `sentence: str = made(sentence_of)`."""
    return Made(by)


class _StandsFor(msgspec.Struct, frozen=True):
    """A model written by hand, with its conversion from the struct."""

    model: type[BaseModel]
    convert: Callable[[Any], object]


_declared: dict[Any, _Declared] = {}
_stand_for: dict[Any, _StandsFor] = {}
_built: dict[Any, type[FromStruct]] = {}


def shows(
    struct: Any, *, without: Iterable[str] = (), optional: Iterable[str] | bool = False
) -> Callable[[type[C]], type[C]]:
    """Declare how the answer of `struct` differs from it. The class gives the schema's name and description.

    In the class, `field = "..."` is the description of a field, or shows a property of the struct as a field. `field:
    type` is a property, or a field that is shown as another type; `= made(function)` makes it of the struct. `without`:
    fields that stay inside. `optional`: fields that OpenAPI does not require, because the struct has a default for
    them; True: each field with a default.

    Raises TypeError if the struct's model exists already, since that model lacks the declaration.
    """

    def declare(declaration: type[C]) -> type[C]:
        if struct in _built or struct in _declared or struct in _stand_for:
            raise TypeError(f"{declaration.__module__}.{declaration.__name__}: {struct} has a model already")
        _declared[struct] = _Declared(
            of=declaration,
            without=frozenset(without),
            optional=optional if isinstance(optional, bool) else frozenset(optional),
        )
        return declaration

    return declare


def stands_for(struct: Any, model: type[BaseModel], convert: Callable[[Any], object] | None = None) -> None:
    """Show `struct` as `model`, which is written by hand. `convert`: by default through JSON, as strict models need."""
    if struct in _built or struct in _declared or struct in _stand_for:
        raise TypeError(f"{model.__module__}.{model.__name__}: {struct} has a model already")
    _stand_for[struct] = _StandsFor(
        model=model, convert=convert or (lambda record: model.model_validate_json(msgspec.json.encode(record)))
    )


def model_of(struct: Any) -> type[FromStruct]:
    """The model of a struct class, or of `Page[...]` or `Items[...]`; built once.

    Raises TypeError for a declaration that names a field which the struct does not have.
    """
    if struct not in _built:
        _built[struct] = _build(struct)
    return _built[struct]


def as_json(value: object) -> Any:
    """Return JSON data of a field of any type: lists of tuples, dictionaries of structs, texts of times."""
    return msgspec.json.decode(msgspec.json.encode(value))


Json = Annotated[JsonValue, BeforeValidator(as_json)]
"""Any JSON data, under the one name that OpenAPI has for it."""

if TYPE_CHECKING:
    Shown = Annotated[T, "the model of T"]
else:

    class Shown:
        """`Shown[Struct]` is the struct for the type checker, and its model for FastAPI and pydantic."""

        def __class_getitem__(cls, struct: Any) -> Any:
            return _shown_type(struct)


def _build(struct: Any) -> type[FromStruct]:
    declared = _declared.get(struct)
    own: type = (get_origin(struct) or struct) if declared is None else declared.of
    without: Set[str] = set() if declared is None else declared.without
    optional: Set[str] | bool = False if declared is None else declared.optional
    words, extra = ({}, {}) if declared is None else contents_of(declared.of)
    found = named_fields(struct)
    for name in words.keys() - found.keys() - extra.keys():
        if isinstance(derived := getattr(struct, name, None), property):
            extra[name] = _shown_type(get_type_hints(derived.fget)["return"])
    mentioned = without | words.keys() | (set[str]() if isinstance(optional, bool) else optional)
    if unknown := mentioned - found.keys() - extra.keys():
        raise TypeError(f"{own.__module__}.{own.__name__}: {struct} has no field {', '.join(sorted(unknown))}")
    fields: dict[str, Any] = {}
    tag_field, tag = tag_of(struct)
    if tag_field is not None:
        fields[tag_field] = (Literal[tag], ...)
    for name, field in found.items():
        if name not in without:
            hint = extra.pop(name, None) or _shown_type(field.type)
            default = default_of(field) if optional is True or (optional and name in optional) else ...
            if default is not ...:
                default = TypeAdapter[Any](hint).validate_python(default, from_attributes=True)
            fields |= field_of(name, hint, default, words.get(name))
    for name, hint in extra.items():
        fields |= field_of(name, hint, ..., words.get(name))
    return create_model(
        own.__name__ if declared is not None else _name(struct),
        __base__=FromStruct,
        __module__=own.__module__,
        __doc__=own.__doc__ if declared is not None else None,
        **fields,
    )


def _name(struct: Any) -> str:
    """`Drill`; `DrillPage` for `Page[Drill]`, `DrillList` for `Items[Drill]`."""
    origin = get_origin(struct)
    if origin is None:
        return cast(str, struct.__name__)
    (of,) = get_args(struct)
    named = _stand_for[of].model if of in _stand_for else of if issubclass(of, BaseModel) else model_of(of)
    return named.__name__ + {Page: "Page", Items: "List"}[origin]


def _shown_type(hint: Any) -> Any:
    """The type with each struct in it replaced by its model."""
    if is_struct(hint):
        if hint in _stand_for:
            return Annotated[_stand_for[hint].model, BeforeValidator(_converted)]
        if tag_of(hint)[0] is not None or _made_of(hint):
            return Annotated[model_of(hint), BeforeValidator(_converted)]
        return model_of(hint)
    if hint is Any:
        return Annotated[Any, BeforeValidator(as_json)]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(hint)
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
        return tuple[tuple(_shown_type(one) for one in arguments)]
    if origin in SEQUENCES:
        return list[_shown_type(arguments[0])]
    if origin in (dict, Mapping):
        return dict[arguments[0], _shown_type(arguments[1])]
    return hint


def _annotated(hint: Any) -> Any:
    """With the description of a `msgspec.Meta` as pydantic has it; bounds are those of input and are not shown."""
    inside, *notes = get_args(hint)
    described = [note.description for note in notes if isinstance(note, msgspec.Meta) and note.description]
    if described:
        return Annotated[_shown_type(inside), Field(description=described[0])]
    return _shown_type(inside)


def _union(members: tuple[Any, ...]) -> Any:
    """Distinguish tagged structs by their tag, in OpenAPI too."""
    tagged = [one for one in members if is_struct(one) and tag_of(one)[0] is not None]
    if len(tagged) < 2:
        return Union[tuple(_shown_type(one) for one in members)]  # noqa: UP007
    models = tuple(_stand_for[one].model if one in _stand_for else model_of(one) for one in tagged)
    together = Annotated[Union[models], Field(discriminator=tag_of(tagged[0])[0]), BeforeValidator(_converted)]  # noqa: UP007
    rest = [one for one in members if one not in tagged]
    return Union[(together, *(_shown_type(one) for one in rest))] if rest else together


def _converted(record: Any) -> object:
    """Return pydantic's input for a struct with a tag, with made fields or with a model written by hand."""
    struct = cast(Any, type(record))
    if struct in _stand_for:
        return _stand_for[struct].convert(record)
    return _attributes(record) if is_struct(struct) else record


def _attributes(record: Any) -> dict[str, Any]:
    """The fields of its model with their values."""
    struct = cast(Any, type(record))
    tag_field, tag = tag_of(struct)
    found: dict[str, Any] = {name: makes.by(record) for name, makes in _made_of(struct).items()}
    if tag_field is not None:
        found[tag_field] = tag
    names = [field.alias or name for name, field in model_of(struct).model_fields.items()]
    return {name: found[name] if name in found else getattr(record, name) for name in names}


def _made_of(struct: Any) -> dict[str, Made]:
    if struct not in _declared:
        return {}
    return {name: value for name, value in vars(_declared[struct].of).items() if isinstance(value, Made)}
