"""A pipeline's definition as the flat fields of an HTML form, and back.

A field is named by its path, as problems name it: `sink_topic`, `transform.steps.2.value`. So a problem appears at the
field to change, and the typed text is kept, right or wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from app.core.pipelines.definition import decode_definition, with_group
from app.core.pipelines.pages import dataframe_form, file_sink_form
from app.core.pipelines.pipeline import PipelineDefinition, PythonFunction, Steps
from app.kit.errors import Problem
from app.kit.web.pages.form_rows import rows_of, with_rows

_NUMBERS = (
    "commit_interval_ms",
    "transaction_timeout_ms",
    "session_timeout_ms",
    "instances",
    "tasks_per_instance",
    "spark.executor_memory_mb",
    "errors.max_bad",
    "errors.window_records",
)
_LISTS = frozenset({"source_topics"})
_OPTIONS = frozenset({"spark.conf", "consumer_overrides", "producer_overrides"})
_PLAIN = (
    "cluster",
    "group_id",
    "sink_topic",
    "start_position",
    "group_protocol",
    "transactional_id_prefix",
    "processing_guarantee",
    "offset_fencing",
    "spark.master",
    "errors.policy",
    "errors.dead_letter_topic",
    "allows_drills",
)
_STEPS = "transform.steps"

STEP_FIELDS: dict[str, tuple[str, ...]] = {
    "filter": ("field", "operator", "value"),
    "condition": ("expression",),
    "project": ("fields",),
    "rename": ("field", "to"),
    "set": ("field", "value"),
    "route": ("field", "operator", "value", "topic"),
}
"""The fields of each kind of step."""
WITHOUT_VALUE = frozenset({"exists", "missing"})


@dataclass(frozen=True, kw_only=True)
class Form:
    """The content of the page: values by field, problems by field, and problems without a field."""

    values: Mapping[str, str]
    steps: Sequence[Mapping[str, str]]
    columns: Sequence[Mapping[str, str]]
    streams: Sequence[Mapping[str, str]]
    problems: Mapping[str, Sequence[Problem]]
    general: Sequence[Problem] = ()
    is_checked: bool = False

    def value(self, field: str) -> str:
        return self.values.get(field, "")

    def problems_at(self, field: str) -> Sequence[Problem]:
        return self.problems.get(field, ())

    @property
    def errors(self) -> int:
        """Return the number of problems that prevent saving."""
        everywhere = [*self.general, *(problem for found in self.problems.values() for problem in found)]
        return sum(not problem.is_warning for problem in everywhere)


def values_of(name: str, definition: PipelineDefinition) -> dict[str, str]:
    """Return the form's fields for an existing definition."""
    data = cast("dict[str, Any]", msgspec.to_builtins(definition))
    values = {
        "name": name,
        **file_sink_form.values_of(definition.files),
        **dataframe_form.values_of(definition.dataframe),
    }
    for field in (*_PLAIN, *_NUMBERS):
        values[field] = _text(_at(data, field))
    for field in _LISTS:
        values[field] = ", ".join(_at(data, field))
    for field in _OPTIONS:
        values[field] = "\n".join(f"{key}={value}" for key, value in sorted(_at(data, field).items()))
    values["transform.kind"] = data["transform"]["kind"]
    match definition.transform:
        case Steps(steps=steps):
            for index, step in enumerate(steps):
                for part, value in cast("dict[str, Any]", msgspec.to_builtins(step)).items():
                    values[f"{_STEPS}.{index}.{part}"] = _step_text(part, value)
        case PythonFunction() as function:
            for part, value in cast("dict[str, Any]", msgspec.to_builtins(function)).items():
                values[f"transform.{part}"] = _text(value)
        case _:
            pass
    return values


def definition_data(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the definition as plain data, ready for decoding that reads numbers from text (`strict=False`).

    Empty fields are left out, so that they get their defaults, and the decoder names the required ones.
    """
    data: dict[str, Any] = {}
    is_query = dataframe_form.is_chosen(values)
    values = dataframe_form.completed(values)
    if is_query:
        values = {name: text for name, text in values.items() if name not in dataframe_form.HIDDEN}
    for field in (*_PLAIN, *_NUMBERS):
        if text := values.get(field, "").strip():
            _put(data, field, text)
    for field in _LISTS:
        _put(data, field, [part for part in re.split(r"[,\s]+", values.get(field, "")) if part])
    for field in _OPTIONS:
        _put(data, field, _options(values.get(field, "")))
    data["transform"] = _transform(values)
    data["files"] = None if is_query else file_sink_form.data_of(values)
    return data


def definition_of(values: Mapping[str, str]) -> PipelineDefinition | list[Problem]:
    """Return the definition in the form, or all of its problems."""
    decoded = decode_definition(definition_data(values), strict=False)
    if isinstance(decoded, list):
        return file_sink_form.in_words(decoded, values)
    return with_group(decoded, name=values.get("name", "").strip())


def _transform(values: Mapping[str, str]) -> dict[str, Any]:
    kind = values.get("transform.kind") or "identity"
    if kind == "steps":
        return {"kind": kind, "steps": [_step(step) for step in steps_of(values)]}
    if kind == dataframe_form.KIND:
        return dataframe_form.data_of(values)
    if kind == "python":
        parts = {
            part: values.get(f"transform.{part}", "").strip() for part in ("function", "scope", "file_name", "sha256")
        }
        return {"kind": kind, **{part: text for part, text in parts.items() if text}}
    return {"kind": kind}


def steps_of(values: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the steps' fields, in order."""
    return rows_of(values, _STEPS)


def with_steps(values: Mapping[str, str], steps: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return `values` with these steps instead of its own."""
    return with_rows(values, _STEPS, steps)


def _step(step: Mapping[str, str]) -> dict[str, Any]:
    kind = step.get("op") or "filter"
    data: dict[str, Any] = {"op": kind}
    for part in STEP_FIELDS.get(kind, ()):
        text = step.get(part, "").strip()
        if part == "fields":
            data[part] = [name for name in re.split(r"[,\s]+", text) if name]
        elif part == "value":
            if step.get("operator") not in WITHOUT_VALUE:
                data[part] = json_or_text(text)
        else:
            data[part] = text
    return data


def json_or_text(text: str) -> Any:
    """Return the typed text as a JSON value: `15`, `true`, `"15"`, `["UA", "DL"]`; a bare word is a string."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def form_of(values: Mapping[str, str], problems: Sequence[Problem] = (), *, is_checked: bool = False) -> Form:
    """Return the form with each problem at the nearest field: `spark.conf.spark.ui.port` belongs to `spark.conf`."""
    steps, columns = steps_of(values), file_sink_form.columns_of(values)
    values = file_sink_form.with_columns(with_steps(values, steps), columns)
    values = dataframe_form.completed(values)
    is_query, streams = dataframe_form.is_chosen(values), dataframe_form.streams_of(values)
    values = dataframe_form.with_streams(values, streams)
    known = {
        *_PLAIN,
        *_NUMBERS,
        *_LISTS,
        *_OPTIONS,
        "name",
        "note",
        "transform.kind",
        "transform.file",
        "transform.function",
        "transform.scope",
        *file_sink_form.known_fields(values),
        *dataframe_form.known_fields(values),
    }
    if is_query:
        known -= {*dataframe_form.HIDDEN, *_LISTS, file_sink_form.SINK}
    for index, step in enumerate(steps):
        base = f"{_STEPS}.{index}"
        known |= {f"{base}.op", *(f"{base}.{part}" for part in (*step, *STEP_FIELDS.get(step.get("op", ""), ())))}
    by_field: dict[str, list[Problem]] = {}
    general: list[Problem] = []
    for problem in problems:
        field = _nearest(dataframe_form.shown_at(problem.field) if is_query else problem.field, known)
        (general if field is None else by_field.setdefault(field, [])).append(problem)
    return Form(
        values=values,
        steps=steps,
        columns=columns,
        streams=streams,
        problems=by_field,
        general=general,
        is_checked=is_checked,
    )


def _nearest(path: str, known: set[str]) -> str | None:
    if path in ("transform.sha256", "transform.file_name"):
        return "transform.file"
    if path in ("transform", _STEPS):
        return "transform.kind"
    if path == "files":
        return file_sink_form.SINK
    while path:
        if path in known:
            return path
        for kind in (f"{path}.op", f"{path}.of"):
            if kind in known:
                return kind
        path = path.rpartition(".")[0]
    return None


def _options(text: str) -> dict[str, str]:
    """Return lines of `key=value`; a line without `=` is a key without a value, which the checks report."""
    options: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key.strip():
            options[key.strip()] = value.strip()
    return options


def _at(data: Mapping[str, Any], path: str) -> Any:
    value: Any = data
    for part in path.split("."):
        value = value[part]
    return value


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        data = data.setdefault(part, {})
    data[last] = value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _step_text(part: str, value: Any) -> str:
    if part == "fields":
        return ", ".join(value)
    if part != "value":
        return str(value)
    # A string that would be read as another type, such as "15", keeps its quotes.
    return value if isinstance(value, str) and json_or_text(value) == value and value else json.dumps(value)
