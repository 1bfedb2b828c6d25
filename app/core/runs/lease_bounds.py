"""The bounds of one lease's messages: the pipeline's own ids, topics and tasks.

A worker is believed about itself. A report about ids and partitions of other owners proves nothing.
"""

from __future__ import annotations

import msgspec

from app.core.ids import transactional_id
from app.core.pipelines.pipeline import ProcessingGuarantee


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
