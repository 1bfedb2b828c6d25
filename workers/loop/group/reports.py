"""What the client reports in place of records, and what it means beyond its code."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message

UNREADABLE = (
    KafkaError._BAD_MSG,  # noqa: SLF001 - librdkafka's public names begin so
    KafkaError._BAD_COMPRESSION,  # noqa: SLF001
    KafkaError._NOT_IMPLEMENTED,  # noqa: SLF001
)
_STOPS = (
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError._LOG_TRUNCATION,  # noqa: SLF001
)
_TRUNCATED = ("log truncation", "No epoch found")
"""How librdkafka says that the epoch of an offset ended before it; the code is that of any other missing offset."""
_NO_OFFSETS = "Failed to fetch committed offsets for"
"""How librdkafka says that it has given up asking where assigned partitions begin; the code may be any."""


def has_given_up(message: Message, error: KafkaError) -> bool:
    """Whether the client will never ask again for the committed offsets that it could not get.

    So it does when an answer is an error as a whole and the assignment has changed since the question (2.16.0,
    rdkafka_assignment.c: the partitions stay among those that are asked for, and while there are any, no others are).
    To unassign and assign them again is no way out: outside of a callback the client would take that for the answer to
    one that is still queued. Offsets that are only undecided are asked for again.
    """
    return (
        message.topic() is None
        and (error.str() or "").startswith(_NO_OFFSETS)
        and error.code() != KafkaError.UNSTABLE_OFFSET_COMMIT
    )


def has_stopped(error: KafkaError) -> bool:
    """Whether the client does not know where to read on in the partition that the message names, and has stopped."""
    return error.code() in _STOPS


def is_truncated(error: KafkaError) -> bool:
    """Whether it has stopped since the log was cut before the offset that it was to go on at, whatever is there now."""
    return any(said in (error.str() or "") for said in _TRUNCATED)
