"""What is known to have been committed, whoever did it: where the group has lost that, nothing is begun anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from app.core.runs.recorded_offset import LostOffset, RecordedOffset, is_same_topic
from workers.loop.group.ownership import Ownership, Partition

_ASK_AGAIN_S = 10.0

AskRecorded = Callable[[], Sequence[RecordedOffset] | None]
"""What the server has recorded of the group; None: it cannot be asked now."""


class _Known(NamedTuple):
    """Which topic a name stands for. topic_id: None where the brokers have no ids. changes: of when it was asked."""

    topic_id: str | None
    changes: int


class Remembered:
    """The newest of three: what the specification says, what this attempt has seen or confirmed, what the server says.

    Of one topic that is the largest offset: nobody sets back a group that has members.

    Kafka forgets: a group's offsets expire when it had no member for a week, and go when somebody deletes the group or
    they are deleted by name. The client then asks for a start position as in a new group, and everything is read again,
    or what came meanwhile is skipped. So whoever is about to begin a partition anew looks here first (see Starting).

    A topic that was deleted and created anew loses its offsets rightly: what is remembered of another topic id, or of a
    name under which there was no topic in between, does not count.
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
        self._by_others = {(one.topic, one.partition): one for one in recorded}
        self._here: dict[Partition, RecordedOffset] = {}
        self._topics: dict[str, _Known] = {}
        self._settled: frozenset[Partition] = frozenset()

    def note(self, committed: Mapping[Partition, int | None]) -> None:
        """The brokers have said that these are committed."""
        for (topic, number), offset in committed.items():
            if offset is not None:
                known = self._topics.get(topic)
                self._here[topic, number] = RecordedOffset(
                    topic=topic, partition=number, offset=offset, topic_id=None if known is None else known.topic_id
                )

    def topic_is(self, topic: str, topic_id: str | None, *, changes: int) -> None:
        """The brokers have said which topic the name stands for. changes: of the ownership, before they were asked."""
        self._topics[topic] = _Known(topic_id, changes)

    def topic_is_missing(self, topic: str) -> None:
        """There is none: a later one of that name is another one."""
        self._topics.pop(topic, None)
        for offsets in (self._by_others, self._here):
            for partition in [one for one in offsets if one[0] == topic]:
                del offsets[partition]

    def settle(self, owned: frozenset[Partition]) -> None:
        """Nothing is committed any more, these were owned until the end. Later owners may commit more of others."""
        self._settled = owned

    def seen(self, *, is_final: bool) -> tuple[RecordedOffset, ...]:
        """What this attempt knows to be committed, partitions that it has given up included: for the server.

        is_final: the attempt has drained; what it had until then (see `settle`) is final.
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
        """Of partitions without a committed offset that are about to begin there: those where one is remembered.

        None: not known yet, look again. A place where reading would go on in any case is no loss.
        """
        if self._clock() - self._asked_at >= _ASK_AGAIN_S:
            # Also where something is remembered here: others may have gone on since this task gave the partition up.
            self._asked_at = self._clock()
            self._by_others |= {(one.topic, one.partition): one for one in self._ask() or ()}
        found = {name: self._of(name) for name in begins}
        wanted = [name for name, ones in found.items() if any(one.offset != begins[name] for one in ones)]
        known = {topic: self._topics.get(topic) for topic, _ in wanted}
        if any(topic is None or topic.changes != self._ownership.changes for topic in known.values()):
            return None
        lost: list[LostOffset] = []
        for name in sorted(wanted):
            topic = known[name[0]]
            ones = [one for one in found[name] if topic is not None and is_same_topic(one, topic.topic_id)]
            newest = max(ones, key=lambda one: (one.offset, not one.is_final), default=None)
            if newest is not None and newest.offset != begins[name]:
                lost.append(
                    LostOffset(
                        topic=name[0],
                        partition=name[1],
                        recorded=newest.offset,
                        begins=begins[name],
                        is_final=newest.is_final,
                    )
                )
        return tuple(lost)

    def _of(self, partition: Partition) -> list[RecordedOffset]:
        return [offsets[partition] for offsets in (self._by_others, self._here) if partition in offsets]
