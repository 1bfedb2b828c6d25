"""`python -m tests.workers.sinks.many_values VALUES RECORDS FOLDER [--unbounded]`: a sink with many partition values.

As the loop does it: batches are added until the sink is full, then its files are written, uploaded and referenced.
Prints the largest memory of the process, at the start and in the end, and the content of the references. Each value
comes about as often as every other, in a new random order for each round.

--unbounded: the control. Nothing is spilled to the spool and the sink is never full; nothing is written either.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import msgspec

from app.core.pipelines.pipeline import ByField
from app.core.pipelines.pipeline import FileSink as Settings
from workers.sinks.file_sink import Dated, FileSinkWriter, WriterIdentity
from workers.sinks.parts import Buffers
from workers.sinks.store import UploadStore

BATCH = 2_000
SOURCE = ("events", 0)


class Report(msgspec.Struct):
    at_start_mb: float
    at_most_mb: float
    values: int
    records: int
    files: int
    checkpoints: int
    seconds: float


def value_of(number: int, user: int) -> bytes:
    return msgspec.json.encode(
        {
            "id": f"{number:012d}",
            "user": f"user-{user:06d}",
            "amount": number % 100_000 / 100,
            "quantity": number % 10,
            "paid": number % 3 == 0,
            "note": "n" * (60 + number % 80),
        }
    )


def run(values: int, records: int, folder: Path, *, is_bounded: bool) -> Report:
    spool, root = folder / "spool", folder / "root"
    spool.mkdir()
    root.mkdir()
    settings = Settings(root=root.as_uri(), partition_by=(ByField(name="user", field="user"),))
    sink = FileSinkWriter(
        settings,
        WriterIdentity(pipeline="many", transactional_id="fl.many.0.0", attempt="1"),
        store=UploadStore(settings.root),
        folder=spool,
        buffers=Buffers() if is_bounded else Buffers(sys.maxsize),
    )
    report = Report(_most_mb(), 0.0, 0, 0, 0, 0, 0.0)
    drawn, began, order = random.Random(7), time.monotonic(), list(range(values))

    def commit() -> None:
        # How fast the disk is is not what is asked here.
        sink.finish(bound_s=900.0, between=lambda: None)
        for _path, reference in sink.references():
            report.files += 1
            report.records += msgspec.json.decode(reference)["records"]
        report.checkpoints += 1
        sink.forget()

    sink.open()
    for number in range(records):
        if number % values == 0:
            drawn.shuffle(order)
        sink.add([Dated(value_of(number, order[number % values]), None)], source=SOURCE, offset=number)
        if number % BATCH == BATCH - 1 and is_bounded and sink.is_full:
            commit()
            sink.open()
    if is_bounded:
        commit()
    report.values = min(values, records)
    report.seconds = round(time.monotonic() - began, 1)
    report.at_most_mb = _most_mb()
    return report


def _most_mb() -> float:
    """The memory of this program alone: getrusage begins with the memory of its parent at the fork."""
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM:")]
    return round(int(line.split()[1]) * 1024 / 1e6, 1)


if __name__ == "__main__":
    sys.stdout.buffer.write(
        msgspec.json.encode(
            run(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), is_bounded="--unbounded" not in sys.argv)
        )
    )
