"""From plain data (a form, an API body, a file) to a pipeline's definition, with every mistake at its own field."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import NoneType
from typing import Any, cast, get_args, get_origin

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.transforms.comparison import kind_of
from app.kit.errors import Problem
from app.kit.words import did_you_mean

_MAX_DEPTH = 32
_MAX_TEXT = 100_000
_INT64 = range(-(1 << 63), 1 << 63)


def decode_definition(data: object, *, strict: bool = True) -> PipelineDefinition | list[Problem]:
    """Return the definition in `data` (JSON-like mappings, lists, scalars), or all of its problems.

    strict: False reads numbers from text too, as they come from a form.
    Values of client overrides and Spark conf are text; numbers and truth values become text there in any case.
    Only shape and types are checked; `pipeline_checks` checks the meaning.
    """
    problems: list[Problem] = []
    definition = _decode(PipelineDefinition, data, "", strict, problems)
    return problems or cast(PipelineDefinition, definition)


def with_group(definition: PipelineDefinition, *, name: str) -> PipelineDefinition:
    """Return the definition with a consumer group: by default the pipeline's name, for form, file and REST alike."""
    return definition if definition.group_id else msgspec.structs.replace(definition, group_id=name)


def _decode(kind: Any, value: object, path: str, strict: bool, problems: list[Problem]) -> object:
    """`value` as `kind`, or None after adding to `problems`. `kind` is a type as the structs of `pipeline` name it."""
    if kind is Any:
        return _decode_json(value, path, problems)
    if kind is str:
        return _decode_text(value, path, problems)
    if kind is bool:
        return _decode_bool(value, path, strict, problems)
    if kind is int:
        return _decode_int(value, path, strict, problems)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _decode_word(kind, value, path, problems)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _decode_struct(kind, value, path, strict, problems)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _decode_tuple(arguments[0], value, path, strict, problems)
    if origin is dict:
        return (_decode_object if arguments[1] is Any else _decode_options)(value, path, problems)
    if NoneType in arguments:
        rest = [argument for argument in arguments if argument is not NoneType]
        return None if value is None else _decode(rest[0], value, path, strict, problems)
    return _decode_tagged(arguments, value, path, strict, problems)


def _decode_struct(
    kind: type[msgspec.Struct], value: object, path: str, strict: bool, problems: list[Problem]
) -> msgspec.Struct | None:
    given = _object(value, path, problems)
    if given is None:
        return None
    before = len(problems)
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    tag_field = kind.__struct_config__.tag_field
    problems += [
        Problem(field=_join(path, name), message=_unknown(_join(path, name), fields))
        for name in given
        if name not in fields and name != tag_field
    ]
    decoded: dict[str, object] = {}
    for name, field in fields.items():
        inner = _join(path, name)
        if name in given:
            decoded[name] = _decode(field.type, given[name], inner, strict, problems)
        elif field.required:
            problems.append(Problem(field=inner, message=_missing(inner)))
    return kind(**decoded) if len(problems) == before else None


def _decode_tagged(
    kinds: tuple[type[msgspec.Struct], ...], value: object, path: str, strict: bool, problems: list[Problem]
) -> msgspec.Struct | None:
    given = _object(value, path, problems)
    if given is None:
        return None
    by_tag = {cast(str, kind.__struct_config__.tag): kind for kind in kinds}
    tag_field = cast(str, kinds[0].__struct_config__.tag_field)
    field = _join(path, tag_field)
    if tag_field not in given:
        problems.append(Problem(field=field, message=f"{_missing(field)}: {_one_of(by_tag)}"))
        return None
    tag = given[tag_field]
    if not isinstance(tag, str) or tag not in by_tag:
        similar = did_you_mean(tag, list(by_tag)) if isinstance(tag, str) else ""
        problems.append(Problem(field=field, message=_must_be(field, _one_of(by_tag), _shown(tag)) + similar))
        return None
    return _decode_struct(by_tag[tag], given, path, strict, problems)


def _decode_tuple(
    kind: Any, value: object, path: str, strict: bool, problems: list[Problem]
) -> tuple[object, ...] | None:
    if not isinstance(value, list | tuple):
        problems.append(Problem(field=path, message=_must_be(path, "a list", kind_of(value))))
        return None
    items = cast("list[object]", value)
    return tuple(_decode(kind, item, _join(path, str(index)), strict, problems) for index, item in enumerate(items))


def _decode_options(value: object, path: str, problems: list[Problem]) -> dict[str, str] | None:
    """Return names to text: `linger.ms: 5` in a file means the text `5`."""
    given = _object(value, path, problems)
    if given is None:
        return None
    options: dict[str, str] = {}
    for name, option in given.items():
        field = _join(path, name)
        match option:
            case bool():
                options[name] = "true" if option else "false"
            case int() | float():
                options[name] = str(option)
            case str():
                options[name] = _decode_text(option, field, problems) or ""
            case _:
                problems.append(Problem(field=field, message=_must_be(field, "text or a number", kind_of(option))))
        if (reason := _unfit(name)) is not None:
            problems.append(Problem(field=path, message=f"A name under `{path}` {reason}"))
    return options


def _decode_object(value: object, path: str, problems: list[Problem]) -> dict[str, object] | None:
    """Return any JSON object."""
    given = _object(value, path, problems)
    if given is not None:
        _decode_json(given, path, problems)
    return given


def _decode_text(value: object, path: str, problems: list[Problem]) -> str | None:
    if not isinstance(value, str):
        problems.append(Problem(field=path, message=_must_be(path, "text", kind_of(value))))
        return None
    if (reason := _unfit(value)) is not None:
        problems.append(Problem(field=path, message=f"`{path}` {reason}"))
        return None
    return value


def _decode_int(value: object, path: str, strict: bool, problems: list[Problem]) -> int | None:
    if isinstance(value, str) and not strict and re.fullmatch(r"\s*-?[0-9]{1,18}\s*", value, re.ASCII):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value not in _INT64:
        got = f"the text `{value}`" if isinstance(value, str) and len(value) <= 40 else _shown(value)
        problems.append(Problem(field=path, message=_must_be(path, "a whole number", got)))
        return None
    return value


def _decode_bool(value: object, path: str, strict: bool, problems: list[Problem]) -> bool | None:
    if not strict and value in ("true", "false"):
        return value == "true"
    if not isinstance(value, bool):
        problems.append(Problem(field=path, message=_must_be(path, "`true` or `false`", _shown(value))))
        return None
    return value


def _decode_word(kind: type[StrEnum], value: object, path: str, problems: list[Problem]) -> StrEnum | None:
    words = [word.value for word in kind]
    if not isinstance(value, str) or value not in words:
        similar = did_you_mean(value, words) if isinstance(value, str) else ""
        problems.append(Problem(field=path, message=_must_be(path, _one_of(words), _shown(value)) + similar))
        return None
    return kind(value)


def _decode_json(value: object, path: str, problems: list[Problem]) -> object:
    reason = _not_json(value, _MAX_DEPTH)
    if reason is not None:
        problems.append(Problem(field=path, message=f"`{path}` {reason}"))
    return value


def _not_json(value: object, depth: int) -> str | None:
    """Return why `value` cannot be written as JSON and stored; None if it can."""
    match value:
        case None | bool():
            return None
        case int():
            return None if value in _INT64 else f"has the number {value}, which does not fit into 64 bits"
        case float():
            return None if math.isfinite(value) else f"has the number {value}, which JSON cannot write"
        case str():
            return _unfit(value)
        case list() | tuple() | dict() if depth == 0:
            return f"is nested more than {_MAX_DEPTH} levels deep"
        case list() | tuple():
            return _first(_not_json(item, depth - 1) for item in cast("list[object]", value))
        case dict():
            mapping = cast("dict[object, object]", value)
            return _first(
                _not_json(part, depth - 1) if isinstance(key, str) else "has a name that is not text"
                for key, item in mapping.items()
                for part in (key, item)
            )
        case _:
            return f"has a {type(value).__name__}, which JSON cannot write; put it in quotation marks"


def _first(reasons: Iterable[str | None]) -> str | None:
    return next((reason for reason in reasons if reason is not None), None)


def _unfit(text: str) -> str | None:
    """Postgres stores no NUL character, and half of a surrogate pair is not text."""
    if len(text) > _MAX_TEXT:
        return f"has {len(text)} characters; at most {_MAX_TEXT} are accepted"
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        return "has a character that cannot be stored (NUL, or half of a surrogate pair)"
    return None


def _object(value: object, path: str, problems: list[Problem]) -> dict[str, object] | None:
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        if all(isinstance(key, str) for key in mapping):
            return dict(cast("Mapping[str, object]", mapping))
        problems.append(
            Problem(field=path, message=f"{_subject(path)} has a name that is not text; put it in quotation marks")
        )
        return None
    problems.append(Problem(field=path, message=_must_be(path, "an object", kind_of(value))))
    return None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _subject(path: str) -> str:
    return f"`{path}`" if path else "The definition"


def _missing(path: str) -> str:
    return f"`{path}` is missing"


def _unknown(path: str, fields: Iterable[str]) -> str:
    name = path.rpartition(".")[2]
    return f"`{path}` is not a field of a pipeline{did_you_mean(name, list(fields))}"


def _must_be(path: str, wanted: str, got: str) -> str:
    return f"{_subject(path)} must be {wanted}, not {got}"


def _one_of(words: Iterable[str]) -> str:
    listed = [f"`{word}`" for word in words]
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} or {listed[-1]}"


def _shown(value: object) -> str:
    """Return short scalars as they are, all others by their type."""
    if isinstance(value, str | int | float) and not isinstance(value, bool) and len(str(value)) <= 40:
        return f"`{value}`"
    return kind_of(value)
