"""Records of files that references name: verified, or an error that names both."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.kit.errors import InvalidError
from app.products.files.reader.errors import FileDamagedError, NoStoreError, StoreUnavailableError
from app.products.files.reader.reading import Selection, Stores, all_records, records
from app.products.files.reader.references import Located
from tests.support.avro_files import located, write_file

FLIGHTS = [{"id": 1, "carrier": "UA"}, {"id": 2, "carrier": None}]


def read(found: Located) -> list[dict[str, Any]]:
    return list(records(found, Stores().of(found)))


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_records_come_back_as_they_were_written(tmp_path: Path, codec: str) -> None:
    assert read(located(write_file(tmp_path, 1, FLIGHTS, codec=codec))) == FLIGHTS


def test_names_that_avro_does_not_allow_come_back_as_they_were(tmp_path: Path) -> None:
    leg = {"type": "record", "name": "leg", "fields": [{"name": "_x_2e_to", "type": "string", "json": ".to"}]}
    schema: dict[str, Any] = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "_xtail_20_number", "type": "string", "json": "tail number"},
            {"name": "legs", "type": ["null", {"type": "array", "items": leg}]},
            {"name": "by_day", "type": {"type": "map", "values": "leg"}},
            {"name": "either", "type": ["string", "leg"]},
        ],
    }
    there = {"_x_2e_to": "ORD"}
    written: list[dict[str, Any]] = [
        {"_xtail_20_number": "N1", "legs": [there], "by_day": {"1": there}, "either": there},
        {"_xtail_20_number": "N2", "legs": None, "by_day": {}, "either": "neither"},
    ]
    back = {".to": "ORD"}
    assert read(located(write_file(tmp_path, 1, written, schema=schema))) == [
        {"tail number": "N1", "legs": [back], "by_day": {"1": back}, "either": back},
        {"tail number": "N2", "legs": None, "by_day": {}, "either": "neither"},
    ]


def test_an_object_with_too_many_names_comes_back_as_one(tmp_path: Path) -> None:
    entries = {"name": "_x_entries", "type": {"type": "map", "values": "long"}, "json": None}
    schema = {"type": "record", "name": "r", "fields": [entries]}
    assert read(located(write_file(tmp_path, 1, [{"_x_entries": {"a": 1}}], schema=schema))) == [{"a": 1}]


def damaged(found: Located, root: Path, change: str) -> Located:
    file = root / found.reference.path
    content = file.read_bytes()
    match change:
        case "missing":
            file.unlink()
        case "short":
            file.write_bytes(content[:-1])
        case "flipped":
            file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "fewer records":
            return msgspec.structs.replace(found, reference=msgspec.structs.replace(found.reference, records=3))
        case _:
            raise AssertionError(change)
    return found


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("missing", "is not there"),
        ("short", r"has \d+ bytes, not \d+"),
        ("flipped", "has the SHA-256 .*, not "),
        ("fewer records", "has 2 records, not 3"),
    ],
)
def test_a_file_that_is_not_the_one_referenced_is_an_error_that_names_both(
    tmp_path: Path, change: str, what: str
) -> None:
    found = damaged(located(write_file(tmp_path, 1, FLIGHTS), offset=42), tmp_path, change)
    with pytest.raises(FileDamagedError, match=rf"{found.reference.path}, referenced at files-0@42, {what}"):
        read(found)


def test_nothing_is_given_of_a_file_that_is_damaged_at_its_end(tmp_path: Path) -> None:
    found = damaged(located(write_file(tmp_path, 1, FLIGHTS * 10_000)), tmp_path, "flipped")
    given: list[Any] = []
    with pytest.raises(FileDamagedError):
        given.extend(records(found, Stores().of(found)))
    assert given == []


@pytest.mark.parametrize("where", ["all of it", "in a block"])
def test_what_is_no_avro_file_is_said(tmp_path: Path, where: str) -> None:
    """Each codec has errors of its own."""
    reference = write_file(tmp_path, 1, FLIGHTS, codec="zstandard")
    written, magic = (tmp_path / reference.path).read_bytes(), b"\x28\xb5\x2f\xfd"
    assert magic in written, "a block is a frame of zstandard"
    content = b"no avro at all" if where == "all of it" else written.replace(magic, b"none")
    (tmp_path / reference.path).write_bytes(content)
    changed = msgspec.structs.replace(reference, size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(FileDamagedError, match="cannot be read as Avro"):
        read(located(changed))


def test_files_are_selected_by_the_values_of_their_columns(tmp_path: Path) -> None:
    partitions = [{"user": "a", "hour": "01"}, {"user": "b", "hour": "01"}, {"user": "a", "hour": "02"}, {"user": "a"}]
    references = [
        located(write_file(tmp_path, number, [{"id": number}], partition=partition))
        for number, partition in enumerate(partitions)
    ]

    def ids(**columns: set[str]) -> list[int]:
        return [record["id"] for _, record in all_records(references, Stores(), Selection(columns=columns))]

    assert ids() == [0, 1, 2, 3]
    assert ids(user={"a"}) == [0, 2, 3]
    assert ids(user={"a", "b"}, hour={"01"}) == [0, 1]
    assert ids(user={"c"}) == []
    assert ids(unknown={"a"}) == []


def test_files_with_other_schemas_are_read_as_they_are(tmp_path: Path) -> None:
    wider = {"type": "record", "name": "flight", "fields": [{"name": "id", "type": "double"}]}
    references = [
        located(write_file(tmp_path, 1, FLIGHTS)),
        located(write_file(tmp_path, 2, [{"id": 2.5}], schema=wider)),
    ]
    heard: list[str] = []
    found = list(all_records(references, Stores(), heard=lambda one: heard.append(one.reference.path)))
    assert [record for _, record in found] == [*FLIGHTS, {"id": 2.5}]
    assert heard == [one.reference.path for one in references]


def test_a_root_that_the_pipeline_never_had_is_not_opened(tmp_path: Path) -> None:
    found = located(write_file(tmp_path, 1, FLIGHTS))
    with pytest.raises(InvalidError, match=r"files-0@0 names the root file://.*, which is none of this pipeline's"):
        Stores(roots={"file:///lake"}).of(found)
    assert Stores(roots={found.reference.root}).of(found)


@pytest.mark.parametrize("root", ["", "lake", "file://host/lake", "ftp://host/lake", "s3:///lake"])
def test_a_root_that_cannot_be_opened_is_named(tmp_path: Path, root: str) -> None:
    reference = msgspec.structs.replace(write_file(tmp_path, 1, FLIGHTS), root=root)
    with pytest.raises(NoStoreError, match="is not a supported store"):
        Stores().of(located(reference))


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b", "a//b"])
def test_a_path_never_leads_out_of_its_root(tmp_path: Path, path: str) -> None:
    store = Stores().of(located(write_file(tmp_path, 1, FLIGHTS)))
    for act in (store.open, store.stat, store.delete):
        with pytest.raises(StoreUnavailableError, match="leads out of"):
            act(path)
