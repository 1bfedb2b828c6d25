"""Records of one poll, as the loop sees them: messages of the client, or records that C holds (workers/native)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, Message, Producer

from app.core.clusters.partition import Partition
from workers.loop.partitions import Place, place_of
from workers.loop.records import writing
from workers.transforms import Transform
from workers.transforms.headers import HeaderNameError, read_headers

if TYPE_CHECKING:
    from workers.native.filing import HeldOutputs


class PolledError(NamedTuple):
    """An error that the client reports in the place of a record. partition None: it is of no partition."""

    error: KafkaError
    partition: Partition | None = None
    offset: int | None = None


class Writable(Protocol):
    """Records for a producer."""

    def __len__(self) -> int: ...

    @property
    def size_bytes(self) -> int:
        """The bytes of all values."""
        ...

    def write(self, producer: Producer, *, topic: str, keep_partition: bool, room_within_s: float) -> None:
        """Enqueue them, those without a topic of their own for `topic`. Raises as `writing.write_messages`."""
        ...


class Records(Writable, Protocol):
    """Records of one poll, in its order; those of a partition follow each other by offset."""

    def __getitem__(self, index: int, /) -> Message:
        """One record as an object: for few of them."""
        ...

    @property
    def span(self) -> tuple[int, int]:
        """The offsets of the first and the last record."""
        ...

    def first_offsets(self) -> Mapping[Partition, int]:
        """The offset of the first record of each partition."""
        ...

    def by_partition(self) -> Mapping[Partition, Records]: ...

    def without(self, partitions: Collection[Partition]) -> Records: ...

    def without_those(self, indexes: Collection[int]) -> Records: ...

    def messages(self) -> tuple[list[Message], Mapping[int, HeaderNameError]]:
        """All of them as objects, and the errors of those whose headers the client cannot read, by index."""
        ...

    def stepped(self, transform: Transform) -> Stepped | None:
        """Run the transform without objects; None: it needs them, or these records are objects."""
        ...

    def outputs(self, transform: Transform) -> HeldOutputs | None:
        """Run the transform without objects, for outputs into files; None as of `stepped`."""
        ...


class Stepped(Writable, Protocol):
    """The outputs of a transform without objects. Valid until the next poll.

    failures: the errors of the records that have none, by index. topics: those beside the sink that have outputs.
    """

    failures: dict[int, Exception]

    @property
    def topics(self) -> set[str]: ...

    def refuse(self, problems: Mapping[str, Exception]) -> dict[int, Exception]:
        """Drop the records with an output for one of these topics; return their errors, by index."""
        ...


class RecordSource(Protocol):
    """Where the records of a consumer come from."""

    @property
    def name(self) -> str:
        """`native`, or `python` and the reason."""
        ...

    def assigned(self, partitions: Iterable[Partition]) -> None:
        """Called in the callback, before the client assigns them."""
        ...

    def given_up(self, partitions: Iterable[Partition]) -> None:
        """Called in the callback of a revocation or a loss."""
        ...

    def poll(self, count: int, timeout_s: float) -> tuple[Records, list[PolledError]]:
        """Return up to `count` records, and errors. Callbacks run in here. Raises KafkaException and LoopError."""
        ...

    def close(self) -> None:
        """Release all records. Called before the consumer is closed."""
        ...


class PolledMessages(list[Message]):
    """Messages of confluent-kafka."""

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self))

    @property
    def span(self) -> tuple[int, int]:
        return self[0].offset() or 0, self[-1].offset() or 0

    def first_offsets(self) -> dict[Partition, int]:
        starts: dict[Place, int] = {}
        for message in self:
            starts.setdefault(place_of(message), message.offset() or 0)
        return {Partition(*place): offset for place, offset in starts.items()}

    def by_partition(self) -> dict[Partition, Records]:
        found: dict[Place, PolledMessages] = {}
        for place, run in groupby(self, place_of):
            found.setdefault(place, PolledMessages()).extend(run)
        return {Partition(*place): records for place, records in found.items()}

    def without(self, partitions: Collection[Partition]) -> PolledMessages:
        return PolledMessages(message for message in self if place_of(message) not in partitions)

    def without_those(self, indexes: Collection[int]) -> PolledMessages:
        return PolledMessages(message for index, message in enumerate(self) if index not in indexes)

    def messages(self) -> tuple[list[Message], Mapping[int, HeaderNameError]]:
        return self, read_headers(self)[1]

    def write(self, producer: Producer, *, topic: str, keep_partition: bool, room_within_s: float) -> None:
        writing.write_messages(producer, self, topic=topic, keep_partition=keep_partition, room_within_s=room_within_s)

    def stepped(self, transform: Transform) -> None:  # noqa: ARG002 - they are objects
        return None

    def outputs(self, transform: Transform) -> None:  # noqa: ARG002 - they are objects
        return None


class MessageSource:
    """Messages as confluent-kafka returns them. why: the reason why C does not hold them."""

    def __init__(self, consumer: Consumer, *, why: str) -> None:
        self.name = f"python: {why}"
        self._consumer = consumer

    def assigned(self, partitions: Iterable[Partition]) -> None:
        """Nothing to do: the consumer's queue has the records of all its partitions."""

    def given_up(self, partitions: Iterable[Partition]) -> None:
        """Nothing to do."""

    def poll(self, count: int, timeout_s: float) -> tuple[Records, list[PolledError]]:
        return sorted_out(self._consumer.consume(count, timeout_s))

    def close(self) -> None:
        """Nothing to do: messages are Python's."""


def sorted_out(messages: list[Message]) -> tuple[PolledMessages, list[PolledError]]:
    """Divide what a poll of confluent-kafka returned."""
    if not any(map(Message.error, messages)):
        return PolledMessages(messages), []
    errors = [(error, message) for message in messages if (error := message.error()) is not None]
    return PolledMessages(message for message in messages if message.error() is None), [
        PolledError(
            error,
            None if message.topic() is None else Partition(*place_of(message)),
            message.offset(),
        )
        for error, message in errors
    ]
