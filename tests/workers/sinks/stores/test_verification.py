"""The ids that went into a checkpoint's files, compared with those read again, and how often each came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.core.pipelines.pipeline import ByField
from app.core.pipelines.pipeline import FileSink as Settings
from workers.sinks.file_sink import Dated, FileSinkWriter, WriterIdentity
from workers.sinks.parts import Buffers
from workers.sinks.store import UploadStore
from workers.sinks.verification import DifferenceError, UnreadError, Verification


class Sink:
    """A sink of a local folder that verifies, and one checkpoint after another."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "lake"
        settings = Settings(
            root=self.root.as_uri(), partition_by=(ByField(name="user", field="user"),), verifies=True, id_field="at.id"
        )
        self._sink = FileSinkWriter(
            settings,
            WriterIdentity(pipeline="flights", transactional_id="fl.t.flights.0.0", attempt="a"),
            store=UploadStore(self.root.as_uri()),
            folder=folder,
            buffers=Buffers(),
        )

    @property
    def verification(self) -> Verification:
        assert self._sink.verification is not None
        return self._sink.verification

    def commit(self, records: Sequence[dict[str, Any]]) -> None:
        self._sink.open()
        for offset, record in enumerate(records):
            value = msgspec.json.encode(record)
            ids = self.verification.ids([value])
            self._sink.add([Dated(value, None)], source=("in", 0), offset=offset)
            self.verification.expect(ids)
        self._sink.finish(bound_s=5.0, between=lambda: None)
        self._sink.committed()
        self._sink.forget()

    def check(self) -> None:
        self.verification.check(lambda: None)

    def file_of(self, user: str) -> Path:
        (file,) = self.root.rglob(f"user={user}/*.avro")
        return file


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path)


def record(identity: Any, user: str = "anna") -> dict[str, Any]:
    return {"user": user, "at": {"id": identity}}


def test_ids_of_every_type_are_compared_and_counted(sink: Sink) -> None:
    sink.commit([record("a"), record("a"), record(7, "bert"), record(None), {"user": "anna"}, record({"x": [1]})])
    sink.check()


def test_each_checkpoint_is_compared_once(sink: Sink) -> None:
    sink.commit([record("a")])
    sink.check()
    sink.file_of("anna").unlink()
    sink.check()


def test_it_stops_when_its_time_is_over_and_goes_on_there(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that read all files of many at once would be no member any more."""
    sink.commit([record(user, user) for user in ("anna", "bert", "carl")])
    sink.file_of("carl").unlink()
    now, read = [100.0], list[int]()
    monkeypatch.setattr(sink.verification, "_clock", lambda: now[0])

    def two_seconds() -> None:
        now[0] += 2.0
        read.append(len(read))

    sink.verification.check(two_seconds, within_s=0.0)
    assert read == []
    sink.verification.check(two_seconds, within_s=3.0)
    assert (len(read), sink.verification.due) == (2, 1)
    with pytest.raises(DifferenceError, match="1 of 3 ids are missing") as found:
        sink.verification.check(two_seconds, within_s=3.0)
    assert (len(read), found.value.lost) == (3, Counter({'"carl"': 1}))


def test_missing_ids_are_those_of_the_file_that_cannot_be_read(sink: Sink) -> None:
    """The others are read all the same."""
    sink.commit([record("a"), record("b"), record("b"), record("c", "bert")])
    sink.file_of("anna").unlink()
    with pytest.raises(DifferenceError, match="3 of 4 ids are missing") as found:
        sink.check()
    assert found.value.lost == Counter({'"a"': 1, '"b"': 2})
    assert found.value.unexpected == Counter()


def test_a_whole_file_in_the_place_of_another_is_none(sink: Sink) -> None:
    sink.commit([record("a"), record("c", "bert")])
    sink.file_of("anna").write_bytes(sink.file_of("bert").read_bytes())
    with pytest.raises(DifferenceError, match=r"SHA-256|bytes, not") as found:
        sink.check()
    assert found.value.lost == Counter({'"a"': 1})


def test_ids_of_an_aborted_checkpoint_are_not_expected_any_more(sink: Sink) -> None:
    sink.verification.expect(Counter({'"a"': 1}))
    sink.verification.forget()
    sink.commit([record("b")])
    sink.check()


def test_both_sets_are_reported(sink: Sink) -> None:
    sink.verification.expect(Counter({'"lost"': 1}))
    sink.commit([record("b")])
    with pytest.raises(DifferenceError, match='ids are missing \\("lost"\\), 0 are too many') as found:
        sink.check()
    assert (found.value.lost, found.value.unexpected) == (Counter({'"lost"': 1}), Counter())


def test_store_that_does_not_answer_is_no_difference_and_is_asked_again(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(sink.verification, "_clock", lambda: now[0])
    sink.commit([record("a")])
    with monkeypatch.context() as away:
        away.setattr("workers.sinks.reading_back.Uploads.open", refuse)
        with pytest.raises(UnreadError, match=r"not compared yet: .*no route"):
            sink.check()
    sink.file_of("anna").unlink()
    # Not at once.
    sink.check()
    assert sink.verification.due == 1
    now[0] += 5.0
    with pytest.raises(DifferenceError):
        sink.check()


def refuse(_place: str, _mode: str) -> Any:
    """In place of opening."""
    raise ConnectionError("no route to the store")
