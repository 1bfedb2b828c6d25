"""The outputs that an input requires: by the pipeline's transform, and its policy for bad records."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from confluent_kafka import Message

from app.core.pipelines.pipeline import FailurePolicy
from app.products.audits.specification import AuditSpecification
from workers.audit.accepting import FileAcceptance
from workers.audit.ids import IdOf, id_of
from workers.transforms import Output, Transform
from workers.transforms.build import build
from workers.transforms.carrying import transformed, untimed


class Fate(Enum):
    """The treatment of an input."""

    WRITTEN = "written"
    DROPPED = "dropped"
    SKIPPED = "skipped"
    DEAD_LETTERED = "dead_lettered"
    STOPPING = "stopping"


class Expected(NamedTuple):
    """ids: the sink's number and the id of each output; elsewhere: the number of outputs to topics that are not read.

    untimed: the number of outputs without a timestamp of their own, which carry the time of writing.
    """

    fate: Fate
    ids: list[tuple[int, bytes | None]]
    elsewhere: int
    untimed: int = 0


class Expectations:
    """Applies the transform to one record at a time, since each output must be assigned to its input.

    So a batch function gets batches of one. A transform that gives another answer the second time cannot be audited by
    the records that it drops or makes. An output that a file cannot have fails like an error of the transform.
    """

    def __init__(self, specification: AuditSpecification) -> None:
        """Raises TransformError when the transform cannot run, FieldPathError for an id that cannot be found."""
        self._transform: Transform = build(
            specification.transform, source=specification.transform_source, sink_topic=specification.sink_topic
        )
        self._numbers = {topic: number for number, topic in enumerate(specification.sink_topics)}
        self._sink_topic = specification.sink_topic
        self._policy = specification.errors.policy
        self._dead_letter_topic = specification.errors.dead_letter_topic
        self._accepts = None if specification.files is None else FileAcceptance(specification.files)
        self._id_of: IdOf = id_of(specification.id)
        self._source_id_of: IdOf = id_of(specification.source_id or specification.id)

    @property
    def is_identity(self) -> bool:
        return self._transform.is_identity and self._accepts is None

    def of(self, message: Message) -> Expected:
        processed, failed = transformed(self._transform, [message])
        if not failed and self._accepts is None:
            failed = untimed(processed)
        if failed or not (self._accepts is None or self._accepts.takes(processed.outputs, message)):
            return self._failed(message)
        ids: list[tuple[int, bytes | None]] = []
        elsewhere = new_times = 0
        for output in processed.outputs:
            # A file's time is that of its reference, independent of its records.
            new_times += self._accepts is None and output.timestamp_ms is None
            number = self._numbers.get(output.topic or self._sink_topic)
            if number is None:
                elsewhere += 1
            else:
                ids.append((number, self._id(output)))
        return Expected(Fate.WRITTEN if processed.outputs else Fate.DROPPED, ids, elsewhere, new_times)

    def _id(self, output: Output) -> bytes | None:
        return self._id_of(output.value, output.key, output.headers)

    def _failed(self, message: Message) -> Expected:
        match self._policy:
            case FailurePolicy.SKIP:
                return Expected(Fate.SKIPPED, [], 0)
            case FailurePolicy.FAIL:
                return Expected(Fate.STOPPING, [], 0)
            case FailurePolicy.DEAD_LETTER:
                number = self._numbers.get(self._dead_letter_topic or "")
                if number is None:
                    return Expected(Fate.DEAD_LETTERED, [], 1)
                found = self._source_id_of(message.value(), message.key(), message.headers())  # pyright: ignore[reportArgumentType]
                return Expected(Fate.DEAD_LETTERED, [(number, found)], 0)
