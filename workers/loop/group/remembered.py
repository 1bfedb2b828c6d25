"""Offsets that are known as committed, by any client. If the group has lost them, no partition starts as new."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from app.core.clusters.partition import Partition
from app.core.runs.recorded_offset import LostOffset, RecordedOffset, is_same_topic
from workers.loop.group.ownership import Ownership

_ASK_AGAIN_S = 10.0

AskRecorded = Callable[[], Sequence[RecordedOffset] | None]
"""Returns the offsets of the group that the server has recorded; None: it cannot be asked now."""


class _Known(NamedTuple):
    """The topic of a name. topic_id: None where brokers have no ids. changes: of the ownership, before the request."""

    topic_id: str | None
    changes: int


class Remembered:
    """The newest of three offsets: from the specification, from this attempt (seen or confirmed), from the server.

    The largest offset of a topic's partition counts: a group with members cannot be set back.

    Kafka deletes offsets a week after the last member has left, or when a user deletes the group or the offsets by
    name. The client then asks for a start position as in a new group: everything is read again, or the
    records that came meanwhile are skipped. So recorded offsets are checked before a partition starts as new (see
    Starting).

    A topic that was deleted and recreated has lost its offsets rightly. So offsets do not count if they were recorded
    under another topic id, or under a name that had no topic in between.
    """

    def __init__(
        self,
        recorded: Sequence[RecordedOffset],
        *,
        ownership: Ownership,
        ask: AskRecorded,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ownership = ownership
        self._ask = ask
        self._clock = clock
        self._asked_at = float("-inf")
        self._by_others = {Partition(one.topic, one.partition): one for one in recorded}
        self._here: dict[Partition, RecordedOffset] = {}
        self._topics: dict[str, _Known] = {}
        self._settled: frozenset[Partition] = frozenset()

    def note(self, committed: Mapping[Partition, int | None]) -> None:
        """Record offsets that the brokers report as committed."""
        for partition, offset in committed.items():
            if offset is not None:
                topic, number = partition
                known = self._topics.get(topic)
                self._here[partition] = RecordedOffset(
                    topic=topic, partition=number, offset=offset, topic_id=None if known is None else known.topic_id
                )

    def topic_is(self, topic: str, topic_id: str | None, *, changes: int) -> None:
        """Record the brokers' topic id of a name. changes: of the ownership, before the request."""
        self._topics[topic] = _Known(topic_id, changes)

    def topic_is_missing(self, topic: str) -> None:
        """Record that the name has no topic: a later one of that name is another topic."""
        self._topics.pop(topic, None)
        for offsets in (self._by_others, self._here):
            for partition in [one for one in offsets if one.topic == topic]:
                del offsets[partition]

    def settle(self, owned: frozenset[Partition]) -> None:
        """Stop recording: these partitions were owned until the end. Later owners may commit more of others."""
        self._settled = owned

    def seen(self, *, is_final: bool) -> tuple[RecordedOffset, ...]:
        """The offsets that this attempt knows as committed, for the server; partitions that it has released included.

        is_final: the attempt has drained; the offsets of its last partitions (see `settle`) are final.
        """
        return tuple(
            RecordedOffset(
                topic=one.topic,
                partition=one.partition,
                offset=one.offset,
                topic_id=one.topic_id,
                is_final=is_final and (one.topic, one.partition) in self._settled,
            )
            for one in self._here.values()
        )

    def lost(self, begins: Mapping[Partition, int]) -> tuple[LostOffset, ...] | None:
        """Partitions without a committed offset that would start at another place than their recorded offset.

        None: not known yet, ask again. A recorded offset that equals the start is not lost.
        """
        if self._clock() - self._asked_at >= _ASK_AGAIN_S:
            # Also with an offset recorded here: others may have continued since this task released the partition.
            self._asked_at = self._clock()
            self._by_others |= {Partition(one.topic, one.partition): one for one in self._ask() or ()}
        found = {name: self._of(name) for name in begins}
        wanted = [name for name, ones in found.items() if any(one.offset != begins[name] for one in ones)]
        known = {topic: self._topics.get(topic) for topic, _ in wanted}
        if any(topic is None or topic.changes != self._ownership.changes for topic in known.values()):
            return None
        lost: list[LostOffset] = []
        for name in sorted(wanted):
            topic = known[name.topic]
            ones = [one for one in found[name] if topic is not None and is_same_topic(one, topic.topic_id)]
            newest = max(ones, key=lambda one: (one.offset, not one.is_final), default=None)
            if newest is not None and newest.offset != begins[name]:
                lost.append(
                    LostOffset(
                        topic=name.topic,
                        partition=name.partition,
                        recorded=newest.offset,
                        begins=begins[name],
                        is_final=newest.is_final,
                    )
                )
        return tuple(lost)

    def _of(self, partition: Partition) -> list[RecordedOffset]:
        return [offsets[partition] for offsets in (self._by_others, self._here) if partition in offsets]
