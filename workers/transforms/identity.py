"""The transform that changes nothing."""

from __future__ import annotations

from confluent_kafka import Message

from workers.transforms import Output, Processed


class IdentityTransform:
    """Keys, values, headers and timestamps pass unchanged. The loop writes its messages through without `process`."""

    is_identity = True

    def process(self, messages: list[Message]) -> Processed:
        """The same outputs, for who wants them one by one."""
        return Processed([as_output(message) for message in messages], [])


def as_output(message: Message) -> Output:
    """`message` as an output for the sink topic, nothing of it lost."""
    return Output(message.value(), message.key(), _headers(message), message.timestamp()[1], None)


def _headers(message: Message) -> list[tuple[str, bytes | None]] | None:
    headers = message.headers()
    if headers is None:
        return None
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]
