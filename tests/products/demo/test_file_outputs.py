"""The check of the demo's files detects errors: real files of the sink are lost, altered and referenced twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.core.pipelines.definition import decode_definition
from app.core.pipelines.pipeline import PipelineDefinition
from app.products.demo import file_pipeline
from app.products.demo.file_outputs import FlightsInFiles
from app.products.demo.flights import Flight, read_flights
from app.products.demo.outputs import WrongOutputError
from workers.sinks.file_sink import Dated, FileSinkWriter, WriterIdentity
from workers.sinks.parts import Buffers
from workers.sinks.store import UploadStore

LAP = 2


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    """Flights of two days, some of them cancelled, so that some fields are missing."""
    found = read_flights(limit=1_000)
    assert len({flight.scheduled_departure[:10] for flight in found}) == 2
    assert any(flight.arrival_delay_min is None for flight in found)
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
def references(root: Path, tmp_path: Path, flights: Sequence[Flight]) -> list[bytes]:
    """Write them by the demo's own definition."""
    given = file_pipeline.definition(cluster="demo", spark_master="local", root=root)
    definition = decode_definition(given)
    assert isinstance(definition, PipelineDefinition), definition
    assert definition.files is not None
    folder = tmp_path / "spool"
    folder.mkdir()
    sink = FileSinkWriter(
        definition.files,
        WriterIdentity(file_pipeline.NAME, "fl.t.flights-by-day.0.0", "1.0"),
        store=UploadStore(definition.files.root),
        folder=folder,
        buffers=Buffers(),
    )
    sink.open()
    for offset, flight in enumerate(flights):
        sink.add([Dated(flight.value(lap=LAP), 0)], source=("flights", 0), offset=offset)
    sink.finish(bound_s=60, between=lambda: None)
    return [value for _, value in sink.references()]


def test_the_files_have_the_flights_that_were_fed(root: Path, references: list[bytes], flights: list[Flight]) -> None:
    outputs = FlightsInFiles(root)
    found = [output for value in references for output in outputs.found(value)]
    assert sorted(found) == sorted(str(outputs.expected((LAP, flight))) for flight in flights)
    assert outputs.files == len(references) > 20


def test_a_reference_that_is_there_twice_brings_its_flights_twice(root: Path, references: list[bytes]) -> None:
    outputs = FlightsInFiles(root)
    assert outputs.found(references[0]) == outputs.found(references[0]) != []


def test_a_file_that_is_gone_or_another_one_brings_nothing(root: Path, references: list[bytes]) -> None:
    outputs = FlightsInFiles(root)
    first, second = (root / named(value)["path"] for value in references[:2])
    first.unlink()
    with pytest.raises(WrongOutputError, match="is referenced, but missing"):
        outputs.found(references[0])
    second.write_bytes(second.read_bytes()[:-1])
    with pytest.raises(WrongOutputError, match="differs from the referenced file"):
        outputs.found(references[1])


def test_a_flight_in_the_file_of_another_day_is_wrong(root: Path, references: list[bytes]) -> None:
    reference = named(references[0])
    reference["partition"] = {**reference["partition"], "date": "2012-12-31"}
    with pytest.raises(WrongOutputError, match="belongs in"):
        FlightsInFiles(root).found(msgspec.json.encode(reference))


def test_fewer_records_than_the_reference_says_are_wrong(root: Path, references: list[bytes]) -> None:
    reference = named(references[0])
    reference["records"] += 1
    with pytest.raises(WrongOutputError, match=r"has \d+ records, not \d+"):
        FlightsInFiles(root).found(msgspec.json.encode(reference))


@pytest.mark.parametrize("value", [b"", b"hello", b"[]", b'{"flight_id": "x"}'])
def test_an_invalid_reference_is_wrong(root: Path, value: bytes) -> None:
    with pytest.raises(WrongOutputError, match="not a reference"):
        FlightsInFiles(root).found(value)


def test_another_value_of_any_field_is_another_output(root: Path, flights: list[Flight]) -> None:
    outputs = FlightsInFiles(root)
    flight = flights[0]
    for field in dataclasses.fields(flight):
        before: Any = getattr(flight, field.name)
        change: dict[str, Any] = {field.name: before + 1 if isinstance(before, int) else f"{before}0"}
        assert outputs.expected((1, dataclasses.replace(flight, **change))) != outputs.expected((1, flight)), field.name


def named(value: bytes) -> dict[str, Any]:
    return msgspec.json.decode(value, type=dict[str, Any])
