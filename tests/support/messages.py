"""Kafka messages as a consumer hands them out, made without a broker."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message


def a_message(
    value: bytes | None,
    *,
    offset: int = 0,
    key: bytes | None = b"key",
    headers: list[tuple[str, bytes | None]] | None = None,
    timestamp: tuple[int, int] = (TIMESTAMP_CREATE_TIME, 1_700_000_000_000),
) -> Message:
    """The message at `offset` of partition 3 of the topic `flights`."""
    extra: dict[str, Any] = {} if headers is None else {"headers": headers}
    return Message(topic="flights", partition=3, offset=offset, key=key, value=value, timestamp=timestamp, **extra)


def json_messages(*values: object) -> list[Message]:
    """One message for each value, at rising offsets."""
    return [a_message(json.dumps(value).encode(), offset=offset) for offset, value in enumerate(values)]
