"""Errors that the client reports in place of records, and their meaning beyond the code."""

from __future__ import annotations

from confluent_kafka import KafkaError

from app.core.clusters.partition import Partition

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
"""librdkafka's messages when the epoch of an offset ended before it; the code is that of any other missing offset."""
_NO_OFFSETS = "Failed to fetch committed offsets for"
"""librdkafka's message when it has stopped asking for committed offsets of partitions; the code may be any."""


def has_given_up(error: KafkaError, partition: Partition | None) -> bool:
    """True if the client will never ask again for committed offsets that it could not get.

    It stops asking if an answer fails as a whole and the assignment has changed since the request (2.16.0,
    rdkafka_assignment.c). The partitions stay among those in request, and while there are any, no others are requested.
    To unassign and assign them again does not help. Outside of a callback the client would take that for the answer to
    a callback that is still queued. Pending offsets are requested again.
    """
    return (
        partition is None
        and (error.str() or "").startswith(_NO_OFFSETS)
        and error.code() != KafkaError.UNSTABLE_OFFSET_COMMIT
    )


def has_stopped(error: KafkaError) -> bool:
    """True if the client has stopped in the message's partition, since it has no position to read from."""
    return error.code() in _STOPS


def is_truncated(error: KafkaError) -> bool:
    """True if it has stopped because the log was cut before its next offset, even if the log has grown since."""
    return any(said in (error.str() or "") for said in _TRUNCATED)
