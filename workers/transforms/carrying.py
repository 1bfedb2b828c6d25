"""The records that the client carries as they are; others are bad, for the loop and for audits alike (ADR 0008)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from confluent_kafka import Message

from workers.transforms import Output, Processed, Transform
from workers.transforms.headers import Headers, read_headers

UNWRITABLE_TIMESTAMP_MS = 0
"""librdkafka takes it for the time of writing."""
_second = itemgetter(1)


class TimestampError(Exception):
    """An output whose timestamp would be replaced by another one."""

    def __init__(self) -> None:
        super().__init__("its timestamp is 0 (1970-01-01), and the client would write the present time instead")


def as_they_are(messages: Sequence[Message]) -> tuple[list[int], list[Headers], dict[int, Exception]]:
    """Timestamps and headers of each, and the errors of those that cannot be written with theirs, by index."""
    timestamps = list(map(_second, map(Message.timestamp, messages)))
    headers, unreadable = read_headers(messages)
    unfit: dict[int, Exception] = {**unreadable}
    if UNWRITABLE_TIMESTAMP_MS in timestamps:
        untimed = [index for index, at_ms in enumerate(timestamps) if at_ms == UNWRITABLE_TIMESTAMP_MS]
        unfit = {**dict.fromkeys(untimed, TimestampError()), **unreadable}
    return timestamps, headers, unfit


def transformed(
    transform: Transform, messages: list[Message], *, unreadable: Mapping[int, Exception] | None = None
) -> tuple[Processed, dict[int, Exception]]:
    """Transform the messages that the client can read; return the errors of the others too, by index.

    `inputs` is always given, and counts in `messages`.

    unreadable: the errors of those whose headers cannot be read; None: find them.
    """
    failed: dict[int, Exception] = {**(read_headers(messages)[1] if unreadable is None else unreadable)}
    places = [index for index in range(len(messages)) if index not in failed]
    processed = transform.process([messages[index] for index in places] if failed else messages)
    failed.update({places[index]: error for index, error in processed.failures})
    inputs = places if processed.inputs is None else [places[index] for index in processed.inputs]
    return processed._replace(inputs=inputs), failed


def untimed(processed: Processed) -> dict[int, Exception]:
    """The inputs that have an output whose time cannot be written."""
    outputs = processed.outputs
    if all(output.timestamp_ms != UNWRITABLE_TIMESTAMP_MS for output in outputs):
        return {}
    pairs = zip(processed.inputs or (), outputs, strict=True)
    return {index: TimestampError() for index, output in pairs if output.timestamp_ms == UNWRITABLE_TIMESTAMP_MS}


def kept(processed: Processed, bad: Mapping[int, Exception]) -> list[Output]:
    """The outputs without all those of bad inputs."""
    if not bad:
        return processed.outputs
    pairs = zip(processed.inputs or (), processed.outputs, strict=True)
    return [output for index, output in pairs if index not in bad]
