"""Where partitions begin and end for an ordinary downstream reader."""

from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

# Neither is in the package's list of public names, so pyright must be told where they are.
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec

from app.embedded.demo.feed import describe_error
from app.embedded.errors import EmbeddedError

ANSWER_S = 10.0


def stable_offsets(admin: AdminClient, topic: str, partitions: tuple[int, ...], *, is_end: bool) -> dict[int, int]:
    """Offsets as a `read_committed` reader sees them: the end is the last stable offset."""
    spec = OffsetSpec.latest() if is_end else OffsetSpec.earliest()
    try:
        futures = cast(
            "dict[TopicPartition, Future[ListOffsetsResultInfo]]",
            cast(Any, admin).list_offsets(
                {TopicPartition(topic, p): spec for p in partitions},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=ANSWER_S,
            ),
        )
        return {partition.partition: future.result(timeout=ANSWER_S).offset for partition, future in futures.items()}
    except KafkaException as error:
        raise EmbeddedError(f"the offsets of {topic}: {describe_error(error)}") from error
