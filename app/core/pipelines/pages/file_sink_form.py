"""The file sink in a pipeline's form: its choice, its fields and the rows of its columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from app.core.pipelines.pipeline import AvroCodec, FileSink, SchemaConflict
from app.kit.errors import Problem
from app.kit.web.pages.form_rows import rows_of, with_rows

SINK = "sink"
RECORDS, FILES = "records", "files"
"""The values of the field SINK, which no definition has."""
COLUMNS = "files.partition_by"
SCHEMA = "files.schema"
COLUMN_FIELDS: dict[str, tuple[str, ...]] = {"field": ("field", "name"), "date": ("name",), "hour": ("name",)}
"""The fields of each kind of column."""
CHOICES: Mapping[str, Sequence[tuple[str, str]]] = {
    SINK: [
        (RECORDS, "records of the sink topic"),
        (FILES, "Avro files and references to them"),
    ],
    "column.of": [
        ("field", "a field of the record"),
        ("date", "the date of the event time"),
        ("hour", "the hour of the event time"),
    ],
    "files.codec": [
        (AvroCodec.ZSTANDARD, "zstandard"),
        (AvroCodec.DEFLATE, "deflate"),
        (AvroCodec.NULL, "null: not compressed"),
    ],
    "files.conflict": [
        (SchemaConflict.UNION, "union: both are kept"),
        (SchemaConflict.BAD_RECORD, "bad_record: it cannot be processed"),
    ],
    "files.verifies": [
        ("false", "not read again"),
        ("true", "read again after each commit, and their ids compared"),
    ],
}
_PLAIN = (
    "root",
    "event_time",
    "codec",
    "rotate_ms",
    "max_file_mb",
    "upload_timeout_ms",
    "conflict",
    "id_field",
    "verifies",
)


def values_of(files: FileSink | None) -> dict[str, str]:
    """Return the form's fields; without a file sink they have the values that are shown once files are chosen."""
    shown = files or FileSink(root="")
    values = {SINK: RECORDS if files is None else FILES}
    for part in _PLAIN:
        values[f"files.{part}"] = _text(getattr(shown, part))
    values[SCHEMA] = "" if shown.schema is None else json.dumps(shown.schema, indent=2, ensure_ascii=False)
    columns = [cast("dict[str, str]", msgspec.to_builtins(column)) for column in shown.partition_by]
    return with_columns(values, columns)


def data_of(values: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the sink as plain data for the decoder; None: outputs are records. Empty fields but the root are left
    out.
    """
    if values.get(SINK) != FILES:
        return None
    data: dict[str, Any] = {part: text for part in _PLAIN if (text := values.get(f"files.{part}", "").strip())}
    # An empty one is not an error of shape, which would hide the other problems.
    data.setdefault("root", "")
    data["partition_by"] = [_column(column) for column in columns_of(values)]
    if text := values.get(SCHEMA, "").strip():
        schema, error = _json(text)
        data["schema"] = text if error else schema
    return data


def in_words(problems: Sequence[Problem], values: Mapping[str, str]) -> list[Problem]:
    """Return the decoder's problems; for a schema that is not JSON, the reason replaces the decoder's."""
    error = _json(values.get(SCHEMA, ""))[1]
    return [
        msgspec.structs.replace(problem, message=error) if error and problem.field == SCHEMA else problem
        for problem in problems
    ]


def columns_of(values: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the columns' fields, in order."""
    return rows_of(values, COLUMNS)


def with_columns(values: Mapping[str, str], columns: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return `values` with these columns instead of its own."""
    return with_rows(values, COLUMNS, columns)


def known_fields(values: Mapping[str, str]) -> set[str]:
    """Return the fields at which the form can show a problem."""
    known = {SINK, COLUMNS, SCHEMA, *(f"files.{part}" for part in _PLAIN)}
    for index, column in enumerate(columns_of(values)):
        base = f"{COLUMNS}.{index}"
        known |= {f"{base}.of", *(f"{base}.{part}" for part in COLUMN_FIELDS.get(column.get("of", ""), ()))}
    return known


def _column(column: Mapping[str, str]) -> dict[str, str]:
    kind = column.get("of") or "field"
    data = {"of": kind, **{part: column.get(part, "").strip() for part in COLUMN_FIELDS.get(kind, ())}}
    # A column without a name gets the name of its kind.
    data["name"] = data.get("name") or data.get("field", kind)
    return data


def _json(text: str) -> tuple[Any, str | None]:
    """Return the JSON value, or the reason why it is not JSON."""
    try:
        return json.loads(text), None
    except json.JSONDecodeError as error:
        return None, f"This is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        return None, f"This is not JSON that can be used: {error}"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


DEFAULTS: Mapping[str, str] = values_of(None)
"""The initial values of fields that have not been on the page yet."""
