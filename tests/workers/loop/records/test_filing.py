"""Outputs on their way into the files of a checkpoint."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.messages import json_messages
from workers.loop.producing.output_topics import OutputTopics
from workers.loop.records.filing import Filing
from workers.loop.telling.tally import Work
from workers.sinks.file_sink import Dated, FileSinkWriter
from workers.transforms import Output, Processed
from workers.transforms.identity import IdentityTransform


class Sink:
    """Notes what is added."""

    verification = None

    def __init__(self) -> None:
        self.added: list[tuple[int, list[bytes]]] = []

    def add(self, outputs: list[Dated], *, source: Any, offset: int) -> None:
        self.added.append((offset, [one.value for one in outputs]))


@pytest.mark.parametrize("inputs", [[0, 0, 1, 2], [2, 0, 1, 0], [1, 0, 2, 0]])
def test_all_outputs_of_a_record_are_added_at_once_and_records_in_order(inputs: list[int]) -> None:
    """A function over Arrow batches returns rows in any order; a file's range of offsets grows with each record."""
    outputs = [Output(b"%d.%d" % (index, number), None, None, 5, None) for number, index in enumerate(inputs)]
    filing = Filing(IdentityTransform(), source_topics=["a"], sink_topic="b", topics=cast(OutputTopics, None))
    sink, work = Sink(), Work()
    processed = Processed(outputs, [], inputs)
    file = filing._file  # pyright: ignore[reportPrivateUsage] - without a producer
    file(json_messages({}, {}, {}), processed, cast(FileSinkWriter, sink), work, {})
    values = [[b"%d.%d" % (index, number) for number, one in enumerate(inputs) if one == index] for index in range(3)]
    assert sink.added == list(enumerate(values))
    assert work.records_out == 4
