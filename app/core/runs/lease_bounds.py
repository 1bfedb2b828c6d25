"""The bounds of one lease's messages: the pipeline's own ids, topics and tasks, and possible numbers.

A worker is believed about itself. A report about ids and partitions of other owners proves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from app.core.ids import transactional_id
from app.core.pipelines.pipeline import ProcessingGuarantee

LARGEST = 2**63 - 1
LARGEST_INDEX = 2**31 - 1
"""The largest partition, task, attempt, process or generation: Kafka, Spark and Postgres store them in 32 bits."""
LARGEST_EPOCH = 2**15 - 1
LARGEST_LATENCY_MS = 1e12
LONGEST_INTERVAL_MS = 30 * 24 * 3_600_000
LATEST_MS = 253_402_214_400_000
"""The last day of the year 9999, which is the last that a datetime holds."""


class LeaseBounds(msgspec.Struct, frozen=True, kw_only=True):
    """From the revision that the lease's instance runs."""

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
        """Return the one id of the task's own producer; None if tasks have none."""
        if self.processing_guarantee is not ProcessingGuarantee.EXACTLY_ONCE_V2:
            return None
        return transactional_id.for_task(
            prefix=self.transactional_id_prefix, pipeline=self.pipeline, instance=self.ordinal, task=task
        )

    def id_of_partition(self, topic: str, partition: int) -> str | None:
        """Return the formula's id of an input partition; None if partitions have none."""
        if self.processing_guarantee is not ProcessingGuarantee.EXACTLY_ONCE:
            return None
        return transactional_id.for_partition(
            prefix=self.transactional_id_prefix, group=self.group, topic=topic, partition=partition
        )

    def is_by_formula(self, name: str) -> bool:
        """Return whether the formula gives the id to a partition of the source topics, even one that was just added."""
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
        """Return whether `text` names a partition of the source topics, as `topic-number`."""
        topic, _, number = text.rpartition("-")
        return topic in self.source_topics and number.isascii() and number.isdecimal()


class Sieve:
    """Passes possible values, and counts by field those that it dropped or moved to a bound."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()

    def number(self, field: str, value: int | None, *, most: int = LARGEST, least: int = 0) -> int | None:
        """Return the value, or None if it is impossible. Kafka's clients use -1 for an unknown value."""
        if value is None or least <= value <= most:
            return value
        if value != -1:
            self.dropped[field] += 1
        return None

    def clamped(self, field: str, value: int, *, most: int = LARGEST) -> int:
        """Return the value, moved to the bound that it exceeds."""
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
        """Return both or neither: one alone has no meaning."""
        producer_id = self.number(field, producer_id)
        epoch = self.number(field, epoch, most=LARGEST_EPOCH)
        return (None, None) if producer_id is None or epoch is None else (producer_id, epoch)


def are_storable(numbers: Iterable[int | None], *, least: int = -1) -> bool:
    """Return whether all of them fit into their columns; a larger number was moved to the bound
    (app/kit/storable.py).
    """
    return all(number is None or least <= number < LARGEST for number in numbers)
