"""Messages of a sink topic are sorted out: files, those of others, and what is no reference at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from app.core.avro_schemas.shape import MAX_DEPTH, NOTHING, BadValueError
from app.core.pipelines.pipeline import FileSink
from app.core.wire.file_references import InputRange
from app.products.files.reading import TopicMessage
from app.products.files.service.receiving import DEEPEST_SCHEMA, LONGEST_NAME, Received, receive
from tests.support.written_files import AT_MS, message, portion, reference, written
from workers.sinks.record_schemas import record_schemas

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def received(*messages: TopicMessage) -> Received:
    return receive("flights", "out", [portion(*messages)], now=NOW)


def test_reference_becomes_the_file_that_it_names() -> None:
    (file,) = received(message(7, committed_ms=AT_MS + 30_920)).files
    assert file == written(7, seen_at=NOW)


def test_commit_that_was_not_read_is_not_known() -> None:
    (file,) = received(message(7)).files
    assert file.committed_at is None


def test_reference_of_another_pipeline_is_counted_and_not_taken() -> None:
    found = received(message(0, reference(pipeline="others")), message(1))
    assert (len(found.files), found.of_others, found.strangers) == (1, 1, 0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"", "Input data was truncated"),
        (b"{", "truncated"),
        (b"\xff\xfe", "malformed"),
        (b'{"path": 3}', "Expected `str`"),
        (b'{"schema":{"x":' + b"[" * 100_000, "nested too deeply"),
        (msgspec.json.encode({**msgspec.to_builtins(reference()), "format": "fenceline.file/9"}), "fenceline.file/9"),
    ],
)
def test_message_that_is_no_reference_is_told_with_its_place_and_stops_nothing(value: bytes, said: str) -> None:
    found = received(message(0), message(1, value), message(2))
    assert (len(found.files), found.strangers) == (2, 1)
    assert found.stranger.startswith("out-0 at offset 1: ")
    assert said in found.stranger


def test_tombstone_and_what_cannot_be_read_are_no_references() -> None:
    found = received(TopicMessage(0, AT_MS, None), TopicMessage(1, AT_MS, None, unreadable="message format 1"))
    assert (found.files, found.strangers) == ((), 2)
    assert "message format 1" in found.stranger


def nested(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"type": made}
    return made


@pytest.mark.parametrize(
    "fields",
    [
        {"path": ""},
        {"path": "x" * 5_000},
        {"transactional_id": "x" * (LONGEST_NAME + 1)},
        {"size_bytes": -1},
        {"records": 2**63},
        {"checkpoint": 2**60},
        {"partition": {str(number): "x" for number in range(101)}},
        {"schema": {"doc": "x" * (1 << 20)}},
        {"schema": nested(DEEPEST_SCHEMA)},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_reference_that_no_table_could_take_is_none(fields: dict[str, Any]) -> None:
    found = received(message(0, reference(**fields)))
    assert (found.files, found.strangers) == ((), 1)


def test_schema_of_what_a_sink_nests_most_deeply_is_kept() -> None:
    schemas, shape = record_schemas(FileSink(root="file:///lake")), NOTHING
    record: object = None
    for _ in range(MAX_DEPTH - 1):
        record = {"name": record}
        shape = schemas.add(shape, msgspec.json.encode(record))
    with pytest.raises(BadValueError):
        schemas.add(shape, msgspec.json.encode({"name": {"name": record}}))
    found = received(message(0, reference(schema=schemas.schema(shape).schema)))
    assert (len(found.files), found.strangers) == (1, 0), found.stranger


def test_texts_are_made_storable() -> None:
    odd = reference(
        partition={"us\x00er": "an\x00na"},
        inputs=(InputRange(topic="\x00", partition=0, first_offset=0, last_offset=0),),
    )
    (file,) = received(message(0, odd)).files
    assert "\x00" not in msgspec.json.decode(msgspec.json.encode(file), type=dict[str, Any])["partition"]["us�er"]
    assert file.inputs[0].topic == "�"


def test_time_that_no_calendar_has_does_not_stop_reading() -> None:
    (file,) = received(message(0, reference(opened_at_ms=-5, closed_at_ms=2**62))).files
    assert file.opened_at == datetime(1970, 1, 1, tzinfo=UTC)
    assert file.closed_at.year == 9999
    assert file.closed_at - file.opened_at > timedelta(days=1)


def test_schema_is_kept_once_for_its_fingerprint() -> None:
    found = received(message(0), message(1), message(2, reference(2, fingerprint="e" * 64)))
    assert set(found.schemas) == {"f" * 64, "e" * 64}
