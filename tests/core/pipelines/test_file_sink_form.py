"""The file sink in the form: values are kept, rows move, problems are at their fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.core.pipelines.pages import file_sink_form
from app.core.pipelines.pages.edit import FORM_CHOICES
from app.core.pipelines.pages.file_sink_form import CHOICES, COLUMN_FIELDS, COLUMNS, DEFAULTS, columns_of, with_columns
from app.core.pipelines.pages.form import STEP_FIELDS, definition_of, form_of, values_of
from app.core.pipelines.pages.trial_form import RecordsPanel
from app.core.pipelines.pipeline import AvroCodec, ByDate, ByField, ByHour, FileSink, PipelineDefinition, SchemaConflict
from app.kit.errors import Problem
from app.kit.web.pages import screen
from app.kit.web.pages.form_rows import rows_of, with_rows, without_row
from tests.support.page_samples import DEFINITION

FILES = FileSink(
    root="s3://flights/files",
    partition_by=(ByField(name="carrier", field="carrier"), ByDate(name="date"), ByHour(name="hour")),
    event_time="at",
    codec=AvroCodec.DEFLATE,
    rotate_ms=5_000,
    max_file_mb=7,
    upload_timeout_ms=20_000,
    conflict=SchemaConflict.BAD_RECORD,
    schema={"type": "record", "name": "f", "fields": [{"name": "a", "type": ["null", "double"], "default": None}]},
    id_field="id",
    verifies=True,
)
WITH_FILES = replace(DEFINITION, files=FILES)


def shown(values: Mapping[str, str], problems: list[Problem] | None = None) -> str:
    context: dict[str, Any] = {
        "editing": "p",
        "expected_revision": 1,
        "form": form_of(values, problems or [], is_checked=bool(problems)),
        "choices": {**FORM_CHOICES, "cluster": [("demo", "demo")], "transform.kind": [("identity", "identity")]},
        "topics": {},
        "panel": RecordsPanel(),
        "changes": None,
        "step_fields": STEP_FIELDS,
        "column_fields": COLUMN_FIELDS,
        "action": "/pipelines/p/edit",
    }
    return screen.render("pipelines/_edit", context)


def test_a_sink_of_files_comes_back_from_the_form_as_it_was() -> None:
    assert definition_of(values_of("p", WITH_FILES)) == WITH_FILES
    assert definition_of(values_of("p", DEFINITION)) == DEFINITION


_words = st.from_regex(r"[A-Za-z0-9_./:=-]{1,12}", fullmatch=True)
_columns = (
    st.builds(ByField, name=_words, field=_words) | st.builds(ByDate, name=_words) | st.builds(ByHour, name=_words)
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=5,
)


@given(
    st.builds(
        FileSink,
        root=_words,
        partition_by=st.lists(_columns, max_size=12).map(tuple),
        event_time=st.none() | _words,
        codec=st.sampled_from(AvroCodec),
        rotate_ms=st.integers(-5, 10**9),
        max_file_mb=st.integers(-5, 10**9),
        upload_timeout_ms=st.integers(-5, 10**9),
        conflict=st.sampled_from(SchemaConflict),
        schema=st.none() | st.dictionaries(_words, _json, max_size=3),
        id_field=st.none() | _words,
        verifies=st.booleans(),
    )
)
def test_any_sink_of_files_comes_back_from_the_form_as_it_was(files: FileSink) -> None:
    definition = replace(DEFINITION, files=files)
    assert definition_of(values_of("p", definition)) == definition


def test_files_that_are_chosen_begin_with_their_defaults_and_without_a_root() -> None:
    """The page that showed records posts none of their fields."""
    posted = {name: value for name, value in values_of("p", DEFINITION).items() if not name.startswith("files.")}
    for typed, root in (({}, ""), ({"files.root": " file:///data "}, "file:///data")):
        definition = definition_of({**DEFAULTS, **posted, "sink": "files", **typed})
        assert isinstance(definition, PipelineDefinition)
        assert definition.files == FileSink(root=root)


def test_choice_of_records_ignores_the_fields_of_files() -> None:
    assert definition_of({**values_of("p", WITH_FILES), "sink": "records"}) == DEFINITION


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ({"of": "field", "field": "user"}, "user"),
        ({"of": "field", "field": " user ", "name": " "}, "user"),
        ({"of": "date", "name": ""}, "date"),
        ({"of": "hour"}, "hour"),
        ({"of": "date", "name": "day"}, "day"),
        ({"of": "field"}, ""),
    ],
)
def test_a_column_without_a_name_is_called_what_it_is(column: dict[str, str], name: str) -> None:
    values = with_columns(values_of("p", WITH_FILES), [column])
    definition = definition_of(values)
    assert isinstance(definition, PipelineDefinition)
    assert definition.files is not None
    assert [one.name for one in definition.files.partition_by] == [name]


def test_a_column_that_is_taken_out_closes_the_gap_and_leaves_the_steps() -> None:
    values = values_of("p", WITH_FILES)
    left = with_columns(values, without_row(columns_of(values), "1"))
    assert [column["name"] for column in columns_of(left)] == ["carrier", "hour"]
    assert f"{COLUMNS}.2.name" not in left
    definition = definition_of(left)
    assert isinstance(definition, PipelineDefinition)
    assert definition.transform == DEFINITION.transform


def test_rows_are_in_the_order_of_their_numbers() -> None:
    rows = [{"name": str(number)} for number in range(12)]
    values = with_rows({"list": "kept", "other.0.name": "kept"}, "list", rows)
    assert rows_of(values, "list") == rows
    assert without_row(rows, "11") == rows[:11]
    assert without_row(rows, "12") == without_row(rows, "x") == rows
    assert with_rows(values, "list", []) == {"list": "kept", "other.0.name": "kept"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type": "record",\n "fields": }', "This is not JSON: line 2, column 12: Expecting value"),
        ("record", "This is not JSON: line 1, column 1: Expecting value"),
        ("[" * 100_000, "This is not JSON that can be used"),
        ("[1]", "`files.schema` must be an object, not a list"),
    ],
)
def test_a_schema_that_is_none_says_where_it_is_wrong(text: str, said: str) -> None:
    problems = definition_of({**values_of("p", WITH_FILES), "files.schema": text})
    assert isinstance(problems, list)
    assert [problem.field for problem in problems] == ["files.schema"]
    assert problems[0].message.startswith(said)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("files", "sink"),
        ("files.root", "files.root"),
        ("files.partition_by", "files.partition_by"),
        ("files.partition_by.1", "files.partition_by.1.of"),
        ("files.partition_by.1.of", "files.partition_by.1.of"),
        ("files.partition_by.0.field", "files.partition_by.0.field"),
        ("files.partition_by.2.name", "files.partition_by.2.name"),
        ("files.schema.fields.0.type", "files.schema"),
        ("files.upload_timeout_ms", "files.upload_timeout_ms"),
        ("files.verifies", "files.verifies"),
    ],
)
def test_a_problem_is_shown_once_at_its_field_and_tied_to_it(path: str, field: str) -> None:
    problem = Problem(field=path, message="quite wrong")
    form = form_of(values_of("p", WITH_FILES), [problem])
    assert form.problems_at(field) == [problem]
    assert not form.general
    html = shown(values_of("p", WITH_FILES), [problem])
    assert html.count("quite wrong") == 1
    assert html.count(f'id="problem-{field}-1"') == 1
    if field != COLUMNS:
        assert re.search(rf'<(input|select|textarea) id="{re.escape(field)}"[^>]*aria-invalid="true"', html)


def test_typed_values_come_back_with_their_errors() -> None:
    values = {
        **values_of("p", WITH_FILES),
        "files.rotate_ms": "soon",
        "files.schema": "{",
        f"{COLUMNS}.0.field": "a..b",
    }
    problems = definition_of(values)
    assert isinstance(problems, list)
    html = shown(values, problems)
    assert 'name="files.rotate_ms" type="number" value="soon"' in html
    assert 'name="files.partition_by.0.field" type="text" value="a..b"' in html
    assert re.search(r'<textarea id="files.schema"[^>]*>\{</textarea>', html)
    assert '<details id="given-schema" open>' in html


def test_the_fields_of_files_are_there_only_for_files() -> None:
    assert '"files.' not in shown(values_of("p", DEFINITION))
    html = shown(values_of("p", WITH_FILES))
    for name in file_sink_form.known_fields(values_of("p", WITH_FILES)) - {COLUMNS}:
        assert html.count(f'id="{name}"') == 1, name
    assert "No effect with files" in html


def test_every_row_can_be_removed_and_one_added_with_and_without_scripts() -> None:
    html = shown(values_of("p", WITH_FILES))
    for do in ("add-column", "remove-column:0", "remove-column:2"):
        assert re.search(rf'<button[^>]* name="do" value="{do}" formnovalidate hx-post="/pipelines/p/edit"', html)
    assert 'Remove<span class="visually-hidden"> column 3</span>' in html


def test_every_kind_of_column_and_word_can_be_chosen() -> None:
    assert [kind for kind, _ in CHOICES["column.of"]] == list(COLUMN_FIELDS)
    assert {word for word, _ in CHOICES["files.codec"]} == set(AvroCodec)
    assert {word for word, _ in CHOICES["files.conflict"]} == set(SchemaConflict)
