"""The clocks of a cluster's brokers, measured from journals: the leader stamps each record that it appends.

A record cannot arrive before it is written: its arrival minus its timestamp is more than its broker is behind. The
answer before did not have it: the time of that request minus the timestamp is less, apart from replication. So the
sample with the shortest time is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from app.core.clocks.clock_offset import Age, ClockOffset
from app.core.journals import group_records, transaction_state
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction

# A smaller change is ignored: a measurement is not exact, and lists should not move by it.
SAME_WITHIN_MS = 1_000
_SECOND_MS = 1_000
_WINDOW_MS = 60_000
_TRUSTED_FOR_MS = 3_600_000


class ClockSample(NamedTuple):
    """A broker's timestamp on a record that was written after `after_ms` and had arrived by `heard_ms`, by this
    clock.
    """

    broker_id: int
    stamped_ms: int
    after_ms: int
    heard_ms: int

    @property
    def most_ms(self) -> int:
        return self.heard_ms - self.stamped_ms

    @property
    def least_ms(self) -> int:
        return min(self.after_ms, self.heard_ms) - self.stamped_ms


class BrokerClocks(msgspec.Struct, frozen=True):
    """offsets: by broker id, those that are measured. leaders: the broker that leads it, by journal and partition."""

    offsets: Mapping[int, ClockOffset] = MappingProxyType({})
    leaders: Mapping[tuple[str, int], int] = MappingProxyType({})

    def offset_at(self, topic: str, partition: int) -> ClockOffset | None:
        """Return the clock of the leader of this journal partition; None if it is not known."""
        return self.offsets.get(self.leaders.get((topic, partition), -1))

    def age_at(self, topic: str, partition: int, stamped_ms: int, *, now_ms: int) -> Age | None:
        """Return the age of this timestamp there; None if it is not known."""
        offset = self.offset_at(topic, partition)
        return None if offset is None or stamped_ms < 0 else offset.age_of(stamped_ms, now_ms=now_ms)

    def ours_ms(self, topic: str, partition: int, stamped_ms: int) -> int:
        """Return the same time by this server's clock, for display; unchanged if the clock is unknown, or this one."""
        return stamped_ms if stamped_ms < 0 else stamped_ms + self.shift_ms(topic, partition)

    def shift_ms(self, topic: str, partition: int) -> int:
        """Return the shift from a timestamp there to this clock, in whole seconds, so that one timestamp has one
        time.
        """
        offset = self.offset_at(topic, partition)
        return (
            0
            if offset is None or abs(offset.middle_ms) < SAME_WITHIN_MS
            else _SECOND_MS * round(offset.middle_ms / _SECOND_MS)
        )

    def shifts(self, topic: str) -> dict[int, int]:
        """Return the shifts other than 0, by partition of the journal."""
        numbers = [number for name, number in self.leaders if name == topic]
        return {number: shift for number in numbers if (shift := self.shift_ms(topic, number))}

    def ours(self, live: LiveTransaction) -> LiveTransaction:
        """Return the same with its times, and those of its steps, by this server's clock."""
        shift_ms = self.shift_ms(transaction_state.TOPIC, live.partition)
        return live.shifted(shift_ms) if shift_ms else live

    def group_ours(self, live: LiveGroup) -> LiveGroup:
        """Return the same with its times by this server's clock."""
        shift_ms = self.shift_ms(group_records.TOPIC, live.partition)
        return live.shifted(shift_ms) if shift_ms else live


class MeasuredClocks:
    """Used by one thread; its frozen results by all."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[str, int], int] = {}
        self._best: dict[int, ClockSample] = {}
        self._best_before: dict[int, ClockSample] = {}
        self._window_began_ms: dict[int, int] = {}
        self._heard_ms: dict[int, int] = {}

    def lead(self, topic: str, partition: int, broker_id: int) -> None:
        self._leaders[topic, partition] = broker_id

    def note(self, sample: ClockSample) -> None:
        broker = sample.broker_id
        self._heard_ms[broker] = sample.heard_ms
        known = self._known(broker)
        if known is None or sample.least_ms > known.most_ms:
            # An impossible time: its clock was set back, or the record was delayed. Either way ages are less.
            self._best[broker], self._window_began_ms[broker] = sample, sample.heard_ms
            self._best_before.pop(broker, None)
        elif sample.heard_ms - self._window_began_ms[broker] > _WINDOW_MS:
            self._best_before[broker] = self._best[broker]
            self._best[broker], self._window_began_ms[broker] = sample, sample.heard_ms
        else:
            self._best[broker] = min(self._best[broker], sample, key=lambda one: one.most_ms)

    def frozen(self, *, now_ms: int) -> BrokerClocks:
        """Return the offsets as of now; a broker without a recent sample is not known any more."""
        offsets = {
            broker: ClockOffset(least_ms=known.least_ms, most_ms=known.most_ms, measured_ms=self._heard_ms[broker])
            for broker in self._best
            if now_ms - self._heard_ms[broker] <= _TRUSTED_FOR_MS and (known := self._known(broker)) is not None
        }
        return BrokerClocks(offsets, dict(self._leaders))

    def _known(self, broker: int) -> ClockSample | None:
        found = [of[broker] for of in (self._best, self._best_before) if broker in of]
        return min(found, key=lambda one: one.most_ms) if found else None
