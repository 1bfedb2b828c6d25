"""Read the first and last offsets of partitions as a `read_committed` consumer, with retries."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

# Neither is in the package's list of public names, so pyright needs their modules.
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec

from app.edges.embedded.errors import EmbeddedError
from app.products.demo.feed import describe_error

T = TypeVar("T")

ANSWER_S = 10.0
PATIENCE_S = 60.0
"""The demo freezes and restarts brokers, so requests are retried for longer than that."""
_ASK_AGAIN_AFTER_S = 0.2


def stable_offsets(admin: AdminClient, topic: str, partitions: tuple[int, ...], *, is_end: bool) -> dict[int, int]:
    """Return offsets as a `read_committed` consumer gets them: the end is the last stable offset."""
    spec = OffsetSpec.latest() if is_end else OffsetSpec.earliest()

    def ask() -> dict[int, int]:
        futures = cast(
            "dict[TopicPartition, Future[ListOffsetsResultInfo]]",
            cast(Any, admin).list_offsets(
                {TopicPartition(topic, p): spec for p in partitions},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=ANSWER_S,
            ),
        )
        # Without a timeout here: librdkafka ends each within request_timeout, with the reason in its error.
        return {partition.partition: future.result().offset for partition, future in futures.items()}

    return answered(f"the offsets of {topic}", ask)


def answered(what: str, ask: Callable[[], T], *, patience_s: float = PATIENCE_S) -> T:
    """Return the result of `ask`, which is repeated while it raises KafkaException, for instance while a leader moves.

    Raises:
        EmbeddedError: it failed for `patience_s`; with the last failure and the number of tries.
    """
    began = time.monotonic()
    tries = 0
    while True:
        tries += 1
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() - began >= patience_s:
                raise EmbeddedError(
                    f"{what}: {describe_error(error)} ({tries} tries in {time.monotonic() - began:.0f} s)"
                ) from error
        time.sleep(_ASK_AGAIN_AFTER_S)
