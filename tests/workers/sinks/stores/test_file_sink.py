"""A sink's use of its local disk and its time while a checkpoint's files are written and uploaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.core.pipelines.pipeline import ByField
from app.core.pipelines.pipeline import FileSink as Settings
from workers.sinks import avro_file
from workers.sinks.file_sink import Dated, FileSinkWriter, SinkError, WriterIdentity
from workers.sinks.parts import Buffers
from workers.sinks.upload_pace import UploadPace
from workers.sinks.uploads import ToUpload, Uploaded, UploadError

MORE_THAN_TWO_CHUNKS = 150


class FailingStore:
    """Takes `puts` times what it is given, and then no more."""

    def __init__(self, puts: int = 0) -> None:
        self.puts = puts

    def put_all(self, files: Sequence[ToUpload], *, within_s: float, between: Callable[[], None]) -> list[Uploaded]:
        if self.puts == 0:
            raise UploadError("refused, for the test")
        self.puts -= 1
        return [Uploaded(path=file.path, uploaded_at_ms=0) for file in files]


def filled(
    folder: Path, store: FailingStore, *, users: int, buffers: Buffers | None = None, **named: Any
) -> FileSinkWriter:
    settings = Settings(root="file:///nowhere", partition_by=(ByField(name="user", field="user"),))
    identity = WriterIdentity(pipeline="flights", transactional_id="fl.0", attempt="a")
    sink = FileSinkWriter(settings, identity, store=store, folder=folder, buffers=buffers or Buffers(), **named)
    sink.open()
    for offset in range(users):
        value = msgspec.json.encode({"user": f"u{offset}"})
        sink.add([Dated(value, None)], source=("in", 0), offset=offset)
    return sink


@pytest.mark.parametrize("puts", [0, 1, 2])
def test_a_file_that_could_not_be_uploaded_does_not_stay_on_the_local_disk(tmp_path: Path, puts: int) -> None:
    """A sink that fills the disk with files that it will not upload cannot write the next ones."""
    sink = filled(tmp_path, FailingStore(puts), users=MORE_THAN_TWO_CHUNKS)
    with pytest.raises(SinkError, match="refused, for the test"):
        sink.finish(bound_s=10.0, between=lambda: None)
    sink.forget()
    assert not list(tmp_path.iterdir())


def test_it_reports_and_ends_in_time_however_long_the_files_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few large files take as long as many small ones."""
    now, heard_at = [100.0], [100.0]
    write = avro_file.write

    def slow(*arguments: Any, **named: Any) -> avro_file.Written:
        now[0] += 0.9
        return write(*arguments, **named)

    monkeypatch.setattr(avro_file, "write", slow)
    sink = filled(tmp_path, FailingStore(puts=9), users=60, clock=lambda: now[0])
    with pytest.raises(SinkError, match="were not uploaded within 5"):
        sink.finish(bound_s=5.0, between=lambda: heard_at.append(now[0]))
    assert now[0] <= 106.0
    assert max(after - before for before, after in pairwise(heard_at)) <= 1.0
    sink.forget()
    assert not list(tmp_path.iterdir())


def test_all_sinks_of_a_task_hold_no_more_files_together_than_one_may(tmp_path: Path) -> None:
    """With a producer for each input partition there are as many sinks; memory is one."""
    buffers = Buffers()

    def sink(users: int) -> FileSinkWriter:
        return filled(tmp_path, FailingStore(), users=users, buffers=buffers, pace=UploadPace(60.0))

    small = sink(100)
    sinks = [sink(4_900) for _ in range(4)]
    assert not any(one.is_full for one in [small, *sinks])
    sinks.append(sink(4_900))
    assert all(one.is_full for one in sinks)
    assert not small.is_full, "its own content is not the surplus"
    sinks.pop().forget()
    assert not any(one.is_full for one in sinks)
