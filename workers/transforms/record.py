"""The input and the output of a Python transform."""

from __future__ import annotations

from typing import Any

import msgspec


class Origin(msgspec.Struct, frozen=True):
    """The place of an input record. A record may be processed more than once."""

    topic: str
    partition: int
    offset: int


class Record(msgspec.Struct, frozen=True):
    """One Kafka record, as input and as output. It cannot be changed; `replace` makes another one.

    topic: for an output, the topic to write to; None means the pipeline's sink topic. None on every input.
    timestamp_ms: milliseconds since 1970; None on an output means the time of writing.
    origin: on an input, its place; on an output it is ignored.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    topic: str | None = None
    origin: Origin | None = None

    def json(self) -> Any:
        """The value as JSON; None for a record without a value. Raises ValueError when it is not JSON."""
        return None if self.value is None else msgspec.json.decode(self.value)

    def replace(self, **changes: Any) -> Record:
        """The same record with these fields changed: key, headers and timestamp stay unless they are named."""
        return msgspec.structs.replace(self, **changes)

    def with_json(self, value: Any) -> Record:
        """The same record with `value`, as JSON, in place of its value."""
        return msgspec.structs.replace(self, value=msgspec.json.encode(value))
