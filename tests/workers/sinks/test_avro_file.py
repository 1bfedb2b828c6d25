"""Avro files from JSON values: what is read back is what was written."""

from __future__ import annotations

import hashlib
import resource
import tempfile
import tracemalloc
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, cast

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.avro_schemas.avro import avro_schema
from app.core.avro_schemas.reading_back import json_values
from app.core.avro_schemas.shape import MAX_FIELDS, BadValueError, merge, shape_of
from app.core.pipelines.pipeline import AvroCodec
from tests.core.avro_schemas.json_objects import MAX_EXACT, objects
from workers.sinks import avro_file
from workers.sinks.avro_file import AvroFileError, write

encode = msgspec.json.encode
NUMBERS: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]}


def schema_of(records: list[dict[str, Any]]) -> dict[str, Any]:
    return avro_schema(reduce(merge, map(shape_of, records)), "flights")


def read(path: Path) -> list[dict[str, Any]]:
    """The values of a file as any reader gets them who knows no more than the file."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        convert = json_values(cast("dict[str, Any]", reader.writer_schema))
        records = cast("list[dict[str, Any]]", list(reader))
    return records if convert is None else [convert(record) for record in records]


def is_same(written: Any, found: Any) -> bool:
    """Equal as JSON: a boolean is no number, and what is null where nothing was written is as good as missing."""
    if isinstance(written, bool) or isinstance(found, bool):
        return written is found
    if isinstance(written, dict) and isinstance(found, dict):
        one, other = cast("dict[str, Any]", written), cast("dict[str, Any]", found)
        missing = other.keys() - one.keys()
        return (
            one.keys() <= other.keys()
            and all(other[name] is None for name in missing)
            and all(is_same(one[name], other[name]) for name in one)
        )
    if isinstance(written, list) and isinstance(found, list):
        ours, theirs = cast("list[Any]", written), cast("list[Any]", found)
        return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    return written == found and (not isinstance(written, float) or repr(written) == repr(found))


@given(st.lists(objects, min_size=1, max_size=6), st.sampled_from(AvroCodec))
def test_every_value_reads_back_as_it_was(records: list[dict[str, Any]], codec: AvroCodec) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.avro"
        written = write(map(encode, records), schema_of(records), codec=codec, path=path, syncs=False)
        found = read(path)
        assert written.records == len(found) == len(records)
        assert all(map(is_same, records, found)), found
        assert written.size_bytes == path.stat().st_size
        assert written.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


CORNERS: list[list[dict[str, Any]]] = [
    [{"-type": "x", "x-y": {"-type": "y"}}, {"x-y": None}],
    [{f"name {number}": number for number in range(MAX_FIELDS + 1)}, {"other": 7}],
    [{"x": {f"name {number}": {"a-b": number} for number in range(MAX_FIELDS + 1)}}],
    [{"x": 0.5}, {"x": MAX_EXACT + 1}, {"x": -(1 << 63)}],
    [{"x": [[], [[]]]}, {"x": [[[None, {"y": 1}]]]}],
    [{}],
    [{"a": {}, "b": []}, {"a": {"c": 1}}],
]


@pytest.mark.parametrize("records", CORNERS)
def test_the_corners_of_json_read_back(records: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "file.avro"
    write(map(encode, records), schema_of(records), codec=AvroCodec.NULL, path=path)
    assert all(map(is_same, records, read(path)))


def test_dates_of_a_given_schema_read_back_as_the_numbers_they_were(tmp_path: Path) -> None:
    logical = {"millis": ("long", "timestamp-millis"), "micros": ("long", "timestamp-micros"), "day": ("int", "date")}
    fields = [{"name": name, "type": ["null", {"type": of, "logicalType": as_}]} for name, (of, as_) in logical.items()]
    schema = {"type": "record", "name": "R", "fields": fields}
    records: list[dict[str, Any]] = [
        {"millis": -1, "micros": -1, "day": -1},
        {"millis": 253402300799999, "micros": 253402300799999999, "day": 2932896},
        {"millis": -62135596800000, "micros": -62135596800000000, "day": -719162},
        {"millis": None, "micros": None, "day": None},
    ]
    path = tmp_path / "file.avro"
    write(map(encode, records), schema, codec=AvroCodec.DEFLATE, path=path)
    assert read(path) == records


@pytest.mark.parametrize("codec", AvroCodec)
def test_a_file_of_many_blocks_reads_back(codec: AvroCodec, tmp_path: Path) -> None:
    records = [{"x": number, "text": f"{number}" * 20} for number in range(20_000)]
    path = tmp_path / "file.avro"
    write(map(encode, records), schema_of(records), codec=codec, path=path)
    with path.open("rb") as file:
        assert len(list(fastavro.block_reader(file))) > 3
    assert read(path) == records


def test_a_file_without_records_is_one(tmp_path: Path) -> None:
    path = tmp_path / "file.avro"
    assert write([], NUMBERS, codec=AvroCodec.ZSTANDARD, path=path).records == 0
    assert read(path) == []


def test_the_same_values_give_the_same_bytes(tmp_path: Path) -> None:
    written: list[avro_file.Written] = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        written.append(write([b'{"x":1}'], NUMBERS, codec=AvroCodec.NULL, path=folder / "file.avro"))
    assert written[0] == written[1]


def test_a_value_that_does_not_fit_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "file.avro"
    with pytest.raises(BadValueError, match="record 3 of the file does not fit: `x` is text, not long"):
        write([b'{"x":1}', b'{"x":2}', b'{"x":"a"}'], NUMBERS, codec=AvroCodec.NULL, path=path)
    assert list(tmp_path.iterdir()) == []


def test_values_that_end_in_an_error_leave_no_file(tmp_path: Path) -> None:
    def values() -> Iterator[bytes]:
        yield b'{"x":1}'
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(values(), NUMBERS, codec=AvroCodec.NULL, path=tmp_path / "file.avro")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def files_of_100_kb_at_most() -> Iterator[None]:
    """The effect of a full disk on a process: a write that fails in the middle of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("files_of_100_kb_at_most")
@pytest.mark.parametrize("count", [50_000, 120_000])
def test_a_full_disk_leaves_no_file_and_names_it(count: int, tmp_path: Path) -> None:
    path = tmp_path / "file.avro"
    values = (b'{"x":%d}' % number for number in range(count))
    with pytest.raises(AvroFileError, match=f"{path} cannot be written: File too large"):
        write(values, NUMBERS, codec=AvroCodec.NULL, path=path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "file.avro"
    path.write_bytes(b"another's")
    with pytest.raises(AvroFileError, match="cannot be made: File exists"):
        write([], NUMBERS, codec=AvroCodec.NULL, path=path)
    assert path.read_bytes() == b"another's"


def test_memory_is_bounded_by_blocks_for_every_size_of_the_file(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        values = (b'{"x":%d}' % (number + (1 << 40)) for number in range(count))
        tracemalloc.start()
        write(values, NUMBERS, codec=AvroCodec.NULL, path=tmp_path / f"{count}.avro", syncs=False)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(1)
    assert peak(400_000) < 1.5 * peak(100_000) < 8 * avro_file.BLOCK_BYTES
