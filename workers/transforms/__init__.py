"""The transforms of a pipeline's records, a batch at a time."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from confluent_kafka import Message


class TransformError(Exception):
    """A transform that cannot run at all, with any record: it stops the task. The message has the next step."""


class RecordError(Exception):
    """A record cannot be processed. The message quotes nothing of the record: viewers read it.

    contents: may quote the record: for its dead letter and for the log of the executor only.
    """

    def __init__(self, message: str, *, contents: str = "") -> None:
        super().__init__(message)
        self.contents = contents


class Output(NamedTuple):
    """One record to write. `topic` None means the sink topic; `timestamp_ms` None means: the time of writing."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    timestamp_ms: int | None
    topic: str | None


class Failure(NamedTuple):
    """The record at `index` of the batch could not be processed; none of its outputs is among the outputs."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride] - nobody asks a Failure for tuple.index
    error: Exception


class Processed(NamedTuple):
    """`outputs` in input order; `failures` by rising index.

    inputs: for each output the index of the record that it came of; None: there is one for each record, in order.
    """

    outputs: list[Output]
    failures: list[Failure]
    inputs: list[int] | None = None


class Transform(Protocol):
    """Turns a batch into outputs. Raises TransformError for an error that no record causes (it then stops the task).

    `is_identity` lets the loop write messages through without building outputs.
    """

    is_identity: bool

    def process(self, messages: list[Message]) -> Processed: ...
