"""A batch that C holds is filed as the same batch of messages, on a real broker: parts, errors and counts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from app.core.pipelines.pipeline import ByField, ByHour, FileSink, Filter, Rename, StepOperator
from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.support.odd_records import OddRecord, now_ms, write_raw
from tests.workers.native.test_filing import OneSink
from tests.workers.native.test_held import begin, consumer_of, polls
from workers.loop.producing.output_topics import OutputTopics
from workers.loop.records.filing import Filing
from workers.loop.records.polled import MessageSource, Records
from workers.loop.telling.tally import Work
from workers.native.library import NativeLibrary, native_library
from workers.native.taking import NativeSource
from workers.sinks import values as values_module
from workers.sinks.file_sink import Dated, FileSinkWriter
from workers.sinks.parts import Source
from workers.transforms import Transform
from workers.transforms.identity import IdentityTransform
from workers.transforms.steps import StepsTransform

SETTINGS = FileSink(root="file:///nowhere", partition_by=(ByField(name="user", field="user"), ByHour(name="hour")))
USUAL = [b'{"user":"u%d","id":%d,"delay":%d}' % (number % 3, number, number * 7 % 40) for number in range(40)]
ODD = [
    *(None, b"", b"[1]", b"{", b'{"user":1.5}', b'{"user":[]}', b'{"user":"u1","id":-0}', b'{"user":"u1","user":"u2"}'),
    *(b'{"us\\u0065r":"u1","id":1}', b'{"user":"u1","delay":"late"}', b'{"user":"u1","delay":1e2}', b'{"user":null}'),
    b'{"user":"u2","id":9223372036854775808}',
]
HEADERS: list[tuple[tuple[bytes, bytes | None], ...]] = [
    (),
    (),
    ((b"a", None),),
    (("é".encode(), b"1"),),
    ((b"\xff", b""),),
]
TRANSFORMS: dict[str, Transform] = {
    "identity": IdentityTransform(),
    "steps": StepsTransform(
        [Filter(field="delay", operator=StepOperator.LT, value=30), Rename(field="id", to="number")], sink_topic="s"
    ),
}


def drawn(rng: random.Random) -> list[OddRecord]:
    now = now_ms()
    usual = [OddRecord(None, value, (), now) for value in USUAL * 20]
    odd = [OddRecord(b"k", value, rng.choice(HEADERS), at) for value in ODD + USUAL[:5] for at in (now, 0)]
    for record in odd:
        usual.insert(rng.randrange(100, len(usual)), record)
    return usual


class Filed:
    """What became of batches: the parts of a sink, the errors by index, and the counts."""

    def __init__(self, batches: Sequence[Records], transform: Transform, folder: Path, native: NativeLibrary | None):
        sink, work = OneSink(folder, SETTINGS, native, most_bytes=20_000), Work()
        filing = Filing(transform, source_topics=["a"], sink_topic="s", topics=cast(OutputTopics, None))
        errors: list[tuple[int, str, str]] = []
        first = 0
        for records in batches:
            found = filing._filed(records, sink.sink, work)  # pyright: ignore[reportPrivateUsage] - without a producer
            errors += [(first + index, type(error).__name__, str(error)) for index, error in found.items()]
            first += len(records)
        self.seen: Any = (sorted(errors), work, sink.content())


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_a_batch_is_filed_as_messages_are(
    kafka: KafkaCluster,
    make_topic: MakeTopic,
    rng: random.Random,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """Control: C files most of the records without `add`."""
    library = native_library()
    assert isinstance(library, NativeLibrary), library
    monkeypatch.setattr(values_module, "_WORTH", 1)
    topic, written = make_topic(), drawn(rng)
    write_raw(kafka.bootstrap_servers, topic, written)
    consumers = [consumer_of(kafka), consumer_of(kafka)]
    native, python = NativeSource(consumers[0], library), MessageSource(consumers[1], why="of this test")
    begin(consumers[0], native, topic, 1)
    begin(consumers[1], python, topic, 1)
    add, added = FileSinkWriter.add, list[int]()

    def counted(sink: FileSinkWriter, outputs: Sequence[Dated], *, source: Source, offset: int) -> None:
        added.append(offset)
        add(sink, outputs, source=source, offset=offset)

    with monkeypatch.context() as patch:
        patch.setattr(FileSinkWriter, "add", counted)
        by_c = Filed(polls(native, len(written)), TRANSFORMS[kind], tmp_path, library)
    by_python = Filed(polls(python, len(written)), TRANSFORMS[kind], tmp_path, None)
    native.close()
    for consumer in consumers:
        consumer.close()
    assert by_c.seen == by_python.seen
    errors, work, _ = by_c.seen
    assert len(errors) >= 8
    assert len(added) < work.records_out / 2, f"{len(added)} of {work.records_out} by Python"
