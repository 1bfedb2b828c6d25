"""What the messages of one lease may speak of: the pipeline's own ids, topics and tasks, and numbers that can be.

A worker's word is believed about itself. Of what others own it proves nothing, whatever it names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from app.core.ids import transactional_id
from app.core.pipelines.pipeline import ProcessingGuarantee

LARGEST = 2**63 - 1
LARGEST_INDEX = 2**31 - 1
"""Of partitions, tasks, attempts, processes and generations, which Kafka, Spark and Postgres keep in 32 bits."""
LARGEST_EPOCH = 2**15 - 1
LARGEST_LATENCY_MS = 1e12
LONGEST_INTERVAL_MS = 30 * 24 * 3_600_000
LATEST_MS = 253_402_214_400_000
"""The last day of the year 9999, which is the last that a datetime holds."""


class LeaseBounds(msgspec.Struct, frozen=True, kw_only=True):
    """By the revision that the lease's instance runs."""

    pipeline: str
    group: str
    ordinal: int
    source_topics: tuple[str, ...]
    transactional_id_prefix: str
    processing_guarantee: ProcessingGuarantee
    tasks: int

    def has_task(self, task: int) -> bool:
        return 0 <= task < self.tasks

    def id_of_task(self, task: int) -> str | None:
        """The one id that the task's own producer may have; None where tasks have none."""
        if self.processing_guarantee is not ProcessingGuarantee.EXACTLY_ONCE_V2:
            return None
        return transactional_id.for_task(
            prefix=self.transactional_id_prefix, pipeline=self.pipeline, instance=self.ordinal, task=task
        )

    def id_of_partition(self, topic: str, partition: int) -> str | None:
        """The formula's id of an input partition; None where partitions have none."""
        if self.processing_guarantee is not ProcessingGuarantee.EXACTLY_ONCE:
            return None
        return transactional_id.for_partition(
            prefix=self.transactional_id_prefix, group=self.group, topic=topic, partition=partition
        )

    def is_by_formula(self, name: str) -> bool:
        """Whether the id is the formula's of some partition of the source topics, which may have appeared just now."""
        front, _, number = name.rpartition(".")
        return (
            number.isascii()
            and number.isdecimal()
            and any(
                self.id_of_partition(topic, int(number)) == name
                for topic in self.source_topics
                if front.endswith(f".{transactional_id.escape(topic)}")
            )
        )

    def names_partition(self, text: str) -> bool:
        """Whether `text` names a partition of the source topics, as `topic-number`."""
        topic, _, number = text.rpartition("-")
        return topic in self.source_topics and number.isascii() and number.isdecimal()


class Sieve:
    """Lets through what can be, and counts by field what it left out or moved to its bound."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()

    def number(self, field: str, value: int | None, *, most: int = LARGEST, least: int = 0) -> int | None:
        """The value, or None where it cannot be one. -1 is how Kafka's clients say that they do not know."""
        if value is None or least <= value <= most:
            return value
        if value != -1:
            self.dropped[field] += 1
        return None

    def clamped(self, field: str, value: int, *, most: int = LARGEST) -> int:
        """The value, moved to the bound that it is beyond."""
        if 0 <= value <= most:
            return value
        self.dropped[field] += 1
        return min(max(value, 0), most)

    def latency(self, field: str, value: float | None) -> float | None:
        if value is None or 0 <= value <= LARGEST_LATENCY_MS:
            return value
        self.dropped[field] += 1
        return None

    def producer(self, field: str, producer_id: int | None, epoch: int | None) -> tuple[int | None, int | None]:
        """Both or neither: one says nothing without the other."""
        producer_id = self.number(field, producer_id)
        epoch = self.number(field, epoch, most=LARGEST_EPOCH)
        return (None, None) if producer_id is None or epoch is None else (producer_id, epoch)


def are_storable(numbers: Iterable[int | None], *, least: int = -1) -> bool:
    """Whether all of them fit into what keeps them; at the bound stands what was beyond it (app/kit/storable.py)."""
    return all(number is None or least <= number < LARGEST for number in numbers)
