"""Avro by C has the bytes of AvroEncoder, or leaves the value to it; the errors are AvroEncoder's."""

from __future__ import annotations

import random
import struct
import tempfile
from collections import Counter
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.avro_schemas import given as given_schemas
from app.core.avro_schemas.avro import avro_schema
from app.core.avro_schemas.shape import MAX_EXACT, MAX_FIELDS, BadValueError, merge, shape_of
from app.core.pipelines.pipeline import AvroCodec
from tests.core.avro_schemas.json_objects import objects
from tests.support.avro_cases import AvroCases
from workers.native.avro import NativeAvro, NativeBlocks, definition_of
from workers.native.library import NativeLibrary, native_library
from workers.sinks import avro_file
from workers.sinks.avro_encoder import AvroEncoder
from workers.sinks.avro_file import write
from workers.sinks.frames import framed

encode = msgspec.json.encode
BY_C, BY_PYTHON, BAD = "by C", "by Python", "bad"


@pytest.fixture(scope="module")
def library() -> NativeLibrary:
    found = native_library()
    assert isinstance(found, NativeLibrary), found
    return found


def record(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{index}", "type": type_} for index, type_ in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


class Both:
    """The same schema by C and by AvroEncoder."""

    def __init__(self, library: NativeLibrary, schema: dict[str, Any]) -> None:
        self._native = NativeBlocks(library, schema)
        self._encoder = AvroEncoder(schema)

    def by_c(self, value: bytes) -> bytes | None:
        """The bytes; None if C leaves the value to Python."""
        left: list[int] = []

        def leave(_value: bytes, number: int) -> bytes:
            left.append(number)
            return b""

        blocks = [bytes(content) for _, content in self._native.blocks([framed([value])], leave, block_bytes=1 << 20)]
        return None if left else b"".join(blocks)

    def outcome(self, value: bytes) -> str:
        """Compare both for one value."""
        found = self.by_c(value)
        try:
            expected = self._encoder.encode(value)
        except BadValueError:
            assert found is None, value
            return BAD
        assert found in (None, expected), value
        return BY_PYTHON if found is None else BY_C


def compare(library: NativeLibrary, drawn: AvroCases, count: int) -> Counter[str]:
    """Compare so many cases, 30 values for each schema; return how they ended."""
    outcomes: Counter[str] = Counter()
    while outcomes.total() < count:
        schema = drawn.schema()
        if given_schemas.problems(schema):
            continue
        both = Both(library, schema)
        outcomes.update(both.outcome(drawn.value(schema)) for _ in range(30))
    return outcomes


@pytest.mark.parametrize("cases", [20_000])
def test_any_value_of_any_schema_has_the_bytes_of_avro_encoder(library: NativeLibrary, seed: int, cases: int) -> None:
    """Control: C decides most of the values that fit, and there are all outcomes."""
    print(f"cases drawn with --seed {seed}")  # noqa: T201 - pytest shows it where the test fails
    outcomes = compare(library, AvroCases(random.Random(seed)), cases)
    assert outcomes[BY_C] > 0.4 * cases, outcomes
    assert outcomes[BY_C] > 5 * outcomes[BY_PYTHON], outcomes
    assert min(outcomes[BY_PYTHON], outcomes[BAD]) > cases / 1000, outcomes


@pytest.mark.parametrize("cases", [20_000])
def test_doubles_are_rounded_as_msgspec_rounds_them(library: NativeLibrary, seed: int, cases: int) -> None:
    """Control: C decides nearly all of them."""
    drawn, both = AvroCases(random.Random(seed)), Both(library, record("double"))
    left = 0
    for _ in range(cases):
        text = drawn.double()
        found = both.by_c(b'{"f0":%s}' % text.encode())
        left += found is None
        assert found in (None, struct.pack("<d", msgspec.json.decode(text, type=float))), text
    assert left < cases / 100


def written(records: list[bytes], schema: dict[str, Any], native: NativeLibrary | None) -> bytes | str:
    """The bytes of a file, or the error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.avro"
        try:
            write(records, schema, codec=AvroCodec.NULL, path=path, syncs=False, native=native)
        except BadValueError as error:
            return str(error)
        return path.read_bytes()


@given(st.lists(objects, min_size=1, max_size=5), st.lists(objects, max_size=2), st.integers(1, 60))
def test_files_are_the_same_with_the_same_errors(
    library: NativeLibrary, known: list[dict[str, Any]], more: list[dict[str, Any]], block_bytes: int
) -> None:
    """Schemas are inferred of some records, and others may not fit them. Blocks are small."""
    schema = avro_schema(reduce(merge, map(shape_of, known)), "R")
    values = [encode(record) for record in (known + more) * 2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_file, "BLOCK_BYTES", block_bytes)
        assert written(values, schema, library) == written(values, schema, None)


WIDE: dict[str, Any] = {f"name {number}": number for number in range(MAX_FIELDS + 1)}
CORNERS: list[list[dict[str, Any]]] = [
    [{"-type": "x", "x-y": {"-type": "y"}}, {"x-y": None}],
    [WIDE, {"other": 7}],
    [{"x": {"a": {"b": [[], [1, 2.5]]}}}, {"x": {"a": {"c": True}}}],
    [{"x": 0.5}, {"x": MAX_EXACT + 1}, {"x": -(1 << 63)}],
    [{}],
    [{"a": {}, "b": []}, {"a": {"c": 1}}],
    [{f"f{number}": number for number in range(200)}, {f"f{number}": number for number in reversed(range(150))}],
]


@pytest.mark.parametrize("records", CORNERS)
def test_corners_have_the_same_files(library: NativeLibrary, records: list[dict[str, Any]]) -> None:
    schema = avro_schema(reduce(merge, map(shape_of, records)), "R")
    values = list(map(encode, records))
    assert written(values, schema, library) == written(values, schema, None)


def test_a_file_of_several_blocks_is_the_same(library: NativeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """One value of a hundred is Python's."""
    monkeypatch.setattr(avro_file, "BLOCK_BYTES", 10_000)
    values = [b'{"f0":%s,"f1":"%d"}' % (b"-0" if number % 100 == 0 else b"1", number) for number in range(20_000)]
    assert written(values, record("long", "string"), library) == written(values, record("long", "string"), None)


def test_the_error_has_the_number_of_the_record(library: NativeLibrary) -> None:
    values = [b'{"f0":1}', b'{"f0":-0}', b'{"f0":"a"}']
    assert written(values, record("long"), library) == "record 3 of the file does not fit: `f0` is text, not long"


DECIDED: list[tuple[Any, bytes, bytes]] = [
    ("long", b"-1", b"\x01"),
    ("long", b"9223372036854775807", b"\xfe" + b"\xff" * 8 + b"\x01"),
    ("long", b"-9223372036854775808", b"\xff" * 9 + b"\x01"),
    ("double", b"1e2", struct.pack("<d", 100.0)),
    ("double", b"7", struct.pack("<d", 7.0)),
    ("double", b"-0.0", struct.pack("<d", -0.0)),
    (["null", "double"], b"9007199254740993.0", b"\x02" + struct.pack("<d", 9007199254740992.0)),
    (["int", "double"], b"2147483648", b"\x02" + struct.pack("<d", 2147483648.0)),
    ("boolean", b"true", b"\x01"),
    (["null", "boolean"], b"false", b"\x02\x00"),
    ("string", '"\\u00e9\U0001f600"'.encode(), b"\x0c" + "é\U0001f600".encode()),
    ({"type": "array", "items": "int"}, b"[1, 2]", b"\x04\x02\x04\x00"),
    ({"type": "map", "values": "int"}, b'{"\\u0061": 1}', b"\x02\x02a\x02\x00"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b'"B"', b"\x02"),
]


@pytest.mark.parametrize(("type_", "value", "expected"), DECIDED)
def test_what_c_writes(library: NativeLibrary, type_: Any, value: bytes, expected: bytes) -> None:
    assert Both(library, record(type_)).by_c(b'{"f0":%s}' % value) == expected


LEFT: list[tuple[Any, bytes]] = [
    ("long", b'{"f0":-0}'),
    ("long", b'{"f0":1.0}'),
    ("long", b'{"f0":9223372036854775808}'),
    ("int", b'{"f0":2147483648}'),
    ("double", b'{"f0":9007199254740993}'),
    ("double", b'{"f0":1e400}'),
    ("double", b'{"f0":-0}'),
    ("string", b'{"f0":"\\ud800"}'),
    ("string", b'{"f0":"\xff"}'),
    ("string", b'{"\\u0066\\u0030":"a"}'),
    ("string", b'{"f0":"a","f0":"b"}'),
    ("string", b'{"f0":"a","f1":1}'),
    ("string", b"{}"),
    ("string", b'{"f0":null}'),
    ("string", b'{"f0":"a"} x'),
    ("string", b'\xef\xbb\xbf{"f0":"a"}'),
    ("string", b'["a"]'),
    ("string", b""),
    ("string", b'{"f0":"%s"}' % (b"x" * (1 << 20))),
    ({"type": "map", "values": "int"}, b'{"f0":{"a":1,"a":2}}'),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, b'{"f0":"\\u0041"}'),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, b'{"f0":"C"}'),
]


@pytest.mark.parametrize(("type_", "value"), LEFT)
def test_what_c_leaves_to_python(library: NativeLibrary, type_: Any, value: bytes) -> None:
    both = Both(library, record(type_))
    assert both.by_c(value) is None
    both.outcome(value)


def test_names_with_letters_beyond_ascii_are_cs_unless_they_are_escaped(library: NativeLibrary) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "e", "json": "é€", "type": "int"}]}
    both = Both(library, schema)
    assert both.by_c('{"é€":1}'.encode()) == b"\x02"
    assert both.by_c('{"\\u00e9€":1}'.encode()) is None
    assert both.by_c('{"é\\u20ac":1}'.encode()) is None


def test_a_name_that_msgspec_has_no_struct_for_may_be_escaped(library: NativeLibrary) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "q", "json": 'q"\n', "type": "int"}]}
    both = Both(library, schema)
    assert both.by_c(b'{"q\\"\\n":1}') == b"\x02"
    assert both.outcome(b'{"q\\u0022\\u000a":1}') == BY_C


def test_python_writes_the_rest_where_c_is_rarely_sure(library: NativeLibrary) -> None:
    """With the same bytes, and in their order."""
    values = [b'{"f0":-0}'] * 200 + [b'{"f0":1}'] * 200
    assert written(values, record("long"), library) == written(values, record("long"), None)


@pytest.mark.parametrize("definition", [{}, {"type": []}, {"type": {"array": 0}}, {"type": {"record": [0, [["a"]]]}}])
def test_a_definition_that_is_none_is_refused(library: NativeLibrary, definition: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="C does not take this schema"):
        NativeAvro(library, definition)


def test_frames_that_are_damaged_are_an_error(library: NativeLibrary) -> None:
    blocks = NativeBlocks(library, record("long"))
    for frames in (b"\x09\x00\x00\x00{}", b"\x01\x00"):
        with pytest.raises(MemoryError):
            list(blocks.blocks([frames], lambda _value, _number: b"", block_bytes=100))


def test_types_that_no_file_has_are_refused() -> None:
    with pytest.raises(ValueError, match="`bytes`"):
        definition_of(record("bytes"))
