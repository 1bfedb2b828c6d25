"""Declarative steps over batches of Kafka messages with JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from app.core.pipelines.pipeline import Route, Step
from app.core.transforms.comparison import kind_of
from app.core.transforms.steps import StepError, compile_steps
from workers.transforms import Failure, Output, Processed, TransformError

# orjson is no faster here, and reads an integer beyond 64 bits as a float: an id would change undetected.
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class NotJsonError(Exception):
    """A value that the steps cannot work on; the message has the reason."""


class StepsTransform:
    """Runs the compiled steps on each record; keys, headers and timestamps pass unchanged.

    A record without a value (a tombstone) has no fields for the steps. It goes as it is to the sink topic and to every
    topic of a route step, once to each. Any of them may have the key, and a deletion must reach it.
    """

    is_identity = False

    def __init__(self, steps: Sequence[Step], *, sink_topic: str | None = None) -> None:
        """Raises TransformError when the steps do not compile. sink_topic: None: no route names it."""
        compiled = compile_steps(steps)
        if isinstance(compiled, list):
            raise TransformError("; ".join(f"{problem.field}: {problem.message}" for problem in compiled))
        self._apply = compiled.apply
        self.steps = tuple(steps)
        routes = (step.topic for step in steps if isinstance(step, Route) and step.topic != sink_topic)
        self.routed = tuple(dict.fromkeys(routes))
        self._tombstone_topics: tuple[str | None, ...] = (None, *self.routed)

    def process(self, messages: list[Message]) -> Processed:
        outputs: list[Output] = []
        failures: list[Failure] = []
        inputs: list[int] = []
        apply, add, came_of = self._apply, outputs.append, inputs.append
        for index, message in enumerate(messages):
            value = message.value()
            topics = self._tombstone_topics
            try:
                if value is not None:
                    record: Any = _decode(value)
                    if type(record) is not dict:
                        error = NotJsonError(f"the value is {kind_of(record)}, and steps need a JSON object")
                        failures.append(Failure(index, error))
                        continue
                    # A cast would be one call more for each record.
                    result = apply(record)  # pyright: ignore[reportUnknownArgumentType]
                    if result is None:
                        continue
                    kept, topic = result
                    topics = (topic,)
                    value = _encode(kept)
            except StepError as error:
                failures.append(Failure(index, error))
                continue
            except _UNREADABLE as error:
                failures.append(Failure(index, NotJsonError(f"the value is not JSON that steps can read: {error}")))
                continue
            kind, timestamp_ms = message.timestamp()
            headers: Any = message.headers()
            at = None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms
            for topic in topics:
                add(Output(value, message.key(), headers, at, topic))
                came_of(index)
        return Processed(outputs, failures, inputs)
