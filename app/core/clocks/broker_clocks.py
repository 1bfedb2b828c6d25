"""The clocks of a cluster's brokers, measured by what they write: a journal's record is stamped by who appends it.

It cannot arrive before it is written: its arrival less its stamp is more than its broker is behind. The answer before
it did not have it: the moment that this was asked for, less its stamp, is less, but for the time that replicas took. So
the sample that took the least is the one to go by.
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

# What differs by less is left as it is: to measure is not exact, and lists are not to move by that.
SAME_WITHIN_MS = 1_000
_SECOND_MS = 1_000
_WINDOW_MS = 60_000
_TRUSTED_FOR_MS = 3_600_000


class ClockSample(NamedTuple):
    """A broker's stamp on a record that was written after `after_ms` and had arrived by `heard_ms`, by our clock."""

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
    """offsets: by broker id, those that are measured. leaders: by journal and partition, the broker that leads it."""

    offsets: Mapping[int, ClockOffset] = MappingProxyType({})
    leaders: Mapping[tuple[str, int], int] = MappingProxyType({})

    def offset_at(self, topic: str, partition: int) -> ClockOffset | None:
        """The clock of the broker that leads this partition of a journal; None where it is not known."""
        return self.offsets.get(self.leaders.get((topic, partition), -1))

    def age_at(self, topic: str, partition: int, stamped_ms: int, *, now_ms: int) -> Age | None:
        """How long ago this was stamped there; None where that is not known."""
        offset = self.offset_at(topic, partition)
        return None if offset is None or stamped_ms < 0 else offset.age_of(stamped_ms, now_ms=now_ms)

    def ours_ms(self, topic: str, partition: int, stamped_ms: int) -> int:
        """The same moment by our clock, to be shown; as it is where the clock is not known, or is ours."""
        return stamped_ms if stamped_ms < 0 else stamped_ms + self.shift_ms(topic, partition)

    def shift_ms(self, topic: str, partition: int) -> int:
        """What makes a stamp of there one of our clock: in whole seconds, so that one stamp gives one moment."""
        offset = self.offset_at(topic, partition)
        return (
            0
            if offset is None or abs(offset.middle_ms) < SAME_WITHIN_MS
            else _SECOND_MS * round(offset.middle_ms / _SECOND_MS)
        )

    def shifts(self, topic: str) -> dict[int, int]:
        """By partition of the journal, those that are not nothing."""
        numbers = [number for name, number in self.leaders if name == topic]
        return {number: shift for number in numbers if (shift := self.shift_ms(topic, number))}

    def ours(self, live: LiveTransaction) -> LiveTransaction:
        """The same, with its times by our clock, those of its steps included."""
        shift_ms = self.shift_ms(transaction_state.TOPIC, live.partition)
        return live.shifted(shift_ms) if shift_ms else live

    def group_ours(self, live: LiveGroup) -> LiveGroup:
        """The same, with its times by our clock."""
        shift_ms = self.shift_ms(group_records.TOPIC, live.partition)
        return live.shifted(shift_ms) if shift_ms else live


class MeasuredClocks:
    """Used by one thread; what it freezes, by everybody."""

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
            # Later than can be: its clock was set back, or the record was long on its way. Either way ages are less.
            self._best[broker], self._window_began_ms[broker] = sample, sample.heard_ms
            self._best_before.pop(broker, None)
        elif sample.heard_ms - self._window_began_ms[broker] > _WINDOW_MS:
            self._best_before[broker] = self._best[broker]
            self._best[broker], self._window_began_ms[broker] = sample, sample.heard_ms
        else:
            self._best[broker] = min(self._best[broker], sample, key=lambda one: one.most_ms)

    def frozen(self, *, now_ms: int) -> BrokerClocks:
        """As of now; what was heard of a broker too long ago is not known any more."""
        offsets = {
            broker: ClockOffset(least_ms=known.least_ms, most_ms=known.most_ms, measured_ms=self._heard_ms[broker])
            for broker in self._best
            if now_ms - self._heard_ms[broker] <= _TRUSTED_FOR_MS and (known := self._known(broker)) is not None
        }
        return BrokerClocks(offsets, dict(self._leaders))

    def _known(self, broker: int) -> ClockSample | None:
        found = [of[broker] for of in (self._best, self._best_before) if broker in of]
        return min(found, key=lambda one: one.most_ms) if found else None
