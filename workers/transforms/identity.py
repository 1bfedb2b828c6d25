"""The transform that changes nothing."""

from __future__ import annotations

from confluent_kafka import Message

from workers.transforms import Output, Processed
from workers.transforms.headers import readable


class IdentityTransform:
    """Keys, values, headers and timestamps pass unchanged. The loop writes its messages through without `process`."""

    is_identity = True

    def process(self, messages: list[Message]) -> Processed:
        """The same outputs, for callers that need them one by one."""
        return Processed([as_output(message) for message in messages], [])


def as_output(message: Message) -> Output:
    """`message` as an output for the sink topic. Only names of headers that are not UTF-8 are lost."""
    return Output(message.value(), message.key(), readable(message), message.timestamp()[1], None)
