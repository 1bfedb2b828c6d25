"""Records filed by C are in the same parts as by Python: values, order, schemas and offsets."""

from __future__ import annotations

import gc
import random
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.core.avro_schemas import given as given_schemas
from app.core.avro_schemas.shape import BadValueError
from app.core.pipelines.pipeline import ByDate, ByField, ByHour, FileSink, SchemaConflict
from tests.support.avro_cases import AvroCases
from workers.native.filing import NativeParts, Stop, definition_of
from workers.native.library import NativeLibrary, native_library
from workers.sinks import values as values_module
from workers.sinks.file_sink import Dated, FileSinkWriter, WriterIdentity
from workers.sinks.parts import Buffers, Part
from workers.sinks.store import UploadStore

SOURCES = [("a", 0), ("a", 1), ("b", 0)]
COLUMNS = (ByField(name="user", field="user"), ByDate(name="date"), ByHour(name="hour"))
IDENTITY = WriterIdentity(pipeline="p", transactional_id="t", attempt="1")


@pytest.fixture(scope="module")
def library() -> NativeLibrary:
    found = native_library()
    assert isinstance(found, NativeLibrary), found
    return found


@pytest.fixture(autouse=True)
def _checks_from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_module, "_WORTH", 1)


class OneSink:
    """A sink whose values are filed by C where it is certain, or by Python alone."""

    def __init__(self, folder: Path, settings: FileSink, native: NativeLibrary | None, most_bytes: int = 1 << 25):
        self.sink = FileSinkWriter(
            settings,
            IDENTITY,
            store=UploadStore(settings.root),
            folder=folder,
            buffers=Buffers(most_bytes),
            native=native,
            holds_natively=native is not None,
        )
        self.sink.open()
        self.parts = self.sink._parts  # pyright: ignore[reportPrivateUsage] - what is held is compared

    def add(self, value: bytes, at_ms: int | None, source: tuple[str, int], offset: int) -> tuple[str, str | None]:
        """File one value; return who did it, and the error."""
        if isinstance(self.parts, NativeParts):
            stop = self.parts.try_value(value, at_ms, source=source, offset=offset)
            if stop is Stop.MEMORY_FULL:
                self.parts.spill()
            if stop not in (Stop.FOR_PYTHON, Stop.NEW_PART):
                return "by C", None
        try:
            self.sink.add([Dated(value, at_ms)], source=source, offset=offset)
        except BadValueError as error:
            return "bad", str(error)
        return "by Python", None

    def content(self) -> dict[Any, Any]:
        """Each part's values, the shape of its schema, its offsets and sizes."""
        added = self.sink.added
        found = {
            values: (
                list(self.parts.values(part)),
                part.shape,
                {source: tuple(span) for source, span in part.ranges.items()},
                part.records,
                part.size_bytes,
            )
            for values, part in self.parts.take_all()
        }
        self.sink.forget()
        return {**found, "added": added}


def compare(
    folder: Path, library: NativeLibrary, settings: FileSink, given: list[tuple[bytes, int | None]], most_bytes: int
) -> Counter[str]:
    """File the same values both ways; return who filed how many."""
    by_c, by_python = OneSink(folder, settings, library, most_bytes), OneSink(folder, settings, None, most_bytes)
    who: Counter[str] = Counter()
    for offset, (value, at_ms) in enumerate(given):
        source = SOURCES[offset % 3]
        one, error = by_c.add(value, at_ms, source, offset)
        other, expected = by_python.add(value, at_ms, source, offset)
        assert (one == "bad", error) == (other == "bad", expected), value
        who[one] += 1
    assert by_c.content() == by_python.content()
    return who


def drawn_settings(rng: random.Random, cases: AvroCases) -> tuple[FileSink, dict[str, Any]]:
    """A sink, and a schema that its values have."""
    while True:
        schema = cases.schema()
        if not given_schemas.problems(schema):
            break
    fields = [field.get("json", field["name"]) for field in schema["fields"]]
    paths = [name.replace("\\", "\\\\").replace(".", "\\.") for name in fields if name] or ["none"]
    columns: list[Any] = [
        rng.choice([ByField(name="x", field=rng.choice([*paths, "user.id"])), ByDate(name="x"), ByHour(name="x")])
        for _ in range(rng.choice([0, 1, 1, 2]))
    ]
    named = tuple(msgspec.structs.replace(one, name=f"c{number}") for number, one in enumerate(columns))
    return FileSink(
        root="file:///nowhere",
        partition_by=named,
        event_time=rng.choice([None, None, rng.choice(paths), "user.at"]),
        schema=schema if rng.random() < 0.3 else None,
        conflict=rng.choice(list(SchemaConflict)),
    ), schema


@pytest.mark.parametrize("cases", [6_000])
def test_any_values_are_in_the_same_parts(library: NativeLibrary, tmp_path: Path, seed: int, cases: int) -> None:
    """Control: C files a good share of them."""
    print(f"cases drawn with --seed {seed}")  # noqa: T201 - pytest shows it where the test fails
    rng = random.Random(seed)
    drawn, who = AvroCases(rng), Counter[str]()
    while who.total() < cases:
        settings, schema = drawn_settings(rng, drawn)
        pool = [drawn.value(schema) for _ in range(12)]
        given = [
            (
                drawn.value(schema) if rng.random() < 0.3 else rng.choice(pool),
                rng.choice([None, 0, 7, -1, 1 << 40, 1 << 41, 1 << 50]),
            )
            for _ in range(100)
        ]
        who += compare(tmp_path, library, settings, given, rng.choice([500, 3_000, 1 << 25]))
    assert who["by C"] > cases / 5, who
    assert min(who["by Python"], who["bad"]) > cases / 50, who


TIMES = [
    *("2026-01-31T12:34:56Z", "2026-01-31T12:34:56.789Z", "2026-01-31T12:34:56", "2024-02-29T23:59:59.999999+00:00"),
    *("2026-01-31T00:10:00+05:30", "2025-12-31T23:30:00-01:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
    *("1969-12-31T23:59:59Z", "1900-03-01T00:00:00Z", "2000-02-29T00:00:00Z", "2026-01-31T12:34:56-00:00"),
]
ODD_TIMES = [
    *("2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T12:60:00Z", "2026-01-31"),
    *("2026-01-31 12:34:56", "2026-01-31T12:34", "20260131T123456Z", "2026-W05-6", "2026-01-31T12:34:56,5Z", "x"),
    *("2026-01-31T12:34:56.1234567Z", "2026-01-31T12:34:56z", "2026-01-31T12:34:56+0530", "0001-01-01T00:00:00+01:00"),
    *("9999-12-31T23:59:59-01:00", "1900-02-29T00:00:00Z", "2026-01-31T12:34:56+24:00", "2026-01-31T12:34:56.Z", ""),
    *(
        "0000-01-01T00:00:00Z",
        "2026-1-31T12:34:56Z",
        "２026-01-31T12:34:56Z",
        "2026-01-31T12:34:60Z",
        "+026-01-31T12:34:56Z",
    ),
]


@pytest.mark.parametrize("time", TIMES + ODD_TIMES)
def test_times_have_the_partitions_that_python_gives_them(library: NativeLibrary, tmp_path: Path, time: str) -> None:
    settings = FileSink(root="file:///nowhere", partition_by=COLUMNS[1:], event_time="at")
    value = msgspec.json.encode({"at": time})
    who = compare(tmp_path, library, settings, [(value, None)] * 3, 1 << 25)
    assert (who["by C"] == 2) == (time in TIMES), who


USERS: list[tuple[Any, bool]] = [
    *(("u", True), ("", True), ("é/=", True), ("5", True), (5, True), (-5, True), (True, True), (False, True)),
    *((None, True), ((1 << 63) - 1, True), ("__HIVE", True), ("__HIVE_DEFAULT_PARTITION__", False)),
    *(("_x__HIVE_DEFAULT_PARTITION__", False), (1 << 63, False), (1.5, False), ([], False), ({}, False)),
]


@pytest.mark.parametrize(("user", "is_cs"), USERS)
def test_fields_have_the_partitions_that_python_gives_them(
    library: NativeLibrary, tmp_path: Path, user: Any, is_cs: bool
) -> None:
    settings = FileSink(root="file:///nowhere", partition_by=COLUMNS[:1])
    who = compare(tmp_path, library, settings, [(msgspec.json.encode({"user": user}), 7)] * 3, 1 << 25)
    assert (who["by C"] == 2) == is_cs, who


def test_equal_texts_of_other_kinds_are_in_one_part(library: NativeLibrary, tmp_path: Path) -> None:
    settings = FileSink(root="file:///nowhere", partition_by=COLUMNS[:1])
    values = [b'{"user":5}', b'{"user":"5"}', b'{"user":true}', b'{"user":"true"}'] * 5
    assert compare(tmp_path, library, settings, [(value, 7) for value in values], 1 << 25)["by C"] >= 14


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_name_that_comes_twice_or_escaped_is_pythons(library: NativeLibrary, tmp_path: Path, is_nested: bool) -> None:
    """Python takes the last one for the column; more than 256 names are a map, which may have escaped names."""
    field = "o.user" if is_nested else "user"
    settings = FileSink(root="file:///nowhere", partition_by=(ByField(name="user", field=field),))
    wide = b",".join(b'"k%d":1' % number for number in range(300))
    inner = [
        b'{"user":1,"user":2}',
        b'{"us\\u0065r":1}',
        b'{"user":1,%s}' % wide,
        b'{"us\\u0065r":1,%s}' % wide,
        b'{"user":2}',
    ]
    values = [b'{"o":%s}' % one if is_nested else one for one in inner] * 4
    compare(tmp_path, library, settings, [(value, 7) for value in values], 1 << 25)


def test_a_full_part_is_told_and_begins_again(library: NativeLibrary, tmp_path: Path) -> None:
    settings = FileSink(root="file:///nowhere", max_file_mb=1)
    sink = OneSink(tmp_path, settings, library)
    value, parts = b'{"x":"%s"}' % (b"y" * 300_000), sink.parts
    assert isinstance(parts, NativeParts)
    sink.add(value, None, SOURCES[0], 0)
    assert [parts.try_value(value, None, source=SOURCES[0], offset=at) for at in range(1, 4)][-1] is Stop.PART_FULL
    ((_, part),) = parts.take_all()
    assert (len(list(parts.values(part))), part.ranges) == (4, {SOURCES[0]: [0, 3]})
    assert parts.try_value(value, None, source=SOURCES[0], offset=4) is Stop.NEW_PART
    assert (parts.held_bytes, parts.records) == (0, 4)


def test_memory_of_a_part_has_one_owner_after_an_error(
    library: NativeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while a part is taken leaves its memory with C, which frees it once: the sanitizers judge this."""

    def fail(*_: object) -> None:
        raise MemoryError("no memory for an offset range")

    sink = OneSink(tmp_path, FileSink(root="file:///nowhere"), library)
    parts = sink.parts
    assert isinstance(parts, NativeParts)
    for offset in range(3):
        sink.add(b'{"x":1}', None, SOURCES[0], offset)
    with monkeypatch.context() as patch:
        patch.setattr(Part, "cover", fail)
        with pytest.raises(MemoryError):
            dict(parts.take_all())
    gc.collect()
    parts.clear()
    assert parts.held_bytes == 0
    sink.add(b'{"x":2}', None, SOURCES[0], 3)
    ((_, part),) = parts.take_all()
    assert (list(parts.values(part)), part.ranges) == ([b'{"x":2}'], {SOURCES[0]: [3, 3]})


def test_memory_is_bounded_for_any_number_of_partition_values(library: NativeLibrary, tmp_path: Path) -> None:
    most_bytes, most = 100_000, 0
    sink = OneSink(tmp_path, FileSink(root="file:///nowhere", partition_by=COLUMNS[:1]), library, most_bytes)
    for offset in range(6_000):
        value = b'{"user":"u%d","x":"%s"}' % (offset % 2_000, b"y" * 80)
        sink.add(value, None, SOURCES[0], offset)
        most = max(most, sink.parts.held_bytes)
    assert most <= most_bytes + most_bytes // 32 + 500
    found = sink.content()
    assert len(found) == 2_001
    assert all(len(found[f"u{user}",][0]) == 3 for user in range(2_000))


def test_definitions_have_the_names_of_paths() -> None:
    settings = FileSink(root="file:///nowhere", partition_by=COLUMNS, event_time="a\\.b.c")
    assert msgspec.json.decode(definition_of(settings)) == {
        "columns": [["user"], "date", "hour"],
        "event_time": ["a.b", "c"],
    }
