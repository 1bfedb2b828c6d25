"""The memory of one take, and what the client answers to records that are offered to it."""

from __future__ import annotations

from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from app.core.clusters.partition import Partition
from workers.loop.errors import LoopError, translated
from workers.loop.records.polled import PolledError
from workers.native.library import NativeLibrary

_DOING = "hand records to the producer"


class Run(NamedTuple):
    """Records [begin, end) of a batch that follow each other in one partition. untimed: how many have timestamp 0."""

    partition: Partition
    begin: int
    end: int
    first_offset: int
    last_offset: int
    size_bytes: int
    untimed: int


class Batch:
    """The memory of one take, released by `free` or with its last user. It may not outlive its consumer."""

    def __init__(self, library: NativeLibrary, pointer: Any) -> None:
        self._library = library
        self._pointer = pointer

    @property
    def live(self) -> Any:
        if self._pointer is None:
            raise ValueError("these records were released; this is a bug in the loop")
        return self._pointer

    def free(self) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self._library.calls.fl_batch_free(pointer)

    def __del__(self) -> None:
        self.free()

    def runs(self) -> list[Run]:
        facts = self.live.contents
        return [
            Run(
                Partition(run.topic.decode(), run.partition),
                run.begin,
                run.end,
                run.first_offset,
                run.last_offset,
                run.bytes,
                run.untimed,
            )
            for run in facts.runs[: facts.run_count]
        ]

    def errors(self) -> list[PolledError]:
        facts = self.live.contents
        return [
            PolledError(
                KafkaError(one.code, (one.text or b"").decode(errors="replace")),
                None if one.topic is None else Partition(one.topic.decode(), one.partition),
                one.offset,
            )
            for one in facts.troubles[: facts.trouble_count]
        ]


def offered(done: int, code: int) -> tuple[int, LoopError | None]:
    """Return the answer of an `Offer`: how many are enqueued, and the reason why not all; None: a full queue."""
    is_full = code in (0, KafkaError._QUEUE_FULL)  # noqa: SLF001 - public, in spite of its name
    return done, None if is_full else translated(KafkaError(code), _DOING)
