"""Cycles go sometime, though the collector is off while the loop runs."""

from __future__ import annotations

import gc
import weakref

from workers.loop.garbage import GarbageCollector, quiet_garbage_collector


class Knot:
    """Refers to itself, as a kept exception does through its traceback."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_freed_once_the_interval_is_over_and_not_before() -> None:
    now = 0.0
    with quiet_garbage_collector():
        collector = GarbageCollector(clock=lambda: now, every_s=5.0)
        gone = weakref.ref(Knot())
        now = 4.9
        collector.collect_if_due()
        assert gone() is not None, "collected before its time"
        now = 5.0
        collector.collect_if_due()
        assert gone() is None
    assert gc.isenabled()


def test_cycles_that_outlived_a_collection_are_freed_when_everything_is_collected() -> None:
    """A window that a user's function keeps for longer than the interval and drops then."""
    now = 0.0
    with quiet_garbage_collector():
        collector = GarbageCollector(clock=lambda: now, every_s=1.0, all_every=4)

        def collect() -> None:
            nonlocal now
            now += 1.0
            collector.collect_if_due()

        knot = Knot()
        gone = weakref.ref(knot)
        collect()
        collect()
        del knot
        collect()
        assert gone() is not None, "it is old by now"
        collect()
        assert gone() is None
