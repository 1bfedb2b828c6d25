"""The garbage collector, run outside of the loop: a full collection in a hot loop costs more than the records do."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager

_YOUNG = 1
_ALL = 2


@contextmanager
def quiet_garbage_collector() -> Generator[None]:
    """Collect once, freeze the live objects, and collect only by a Collector until the block ends."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


class GarbageCollector:
    """Collects young objects between two checkpoints, at most once in `every_s`, busy or idle; sometimes all objects.

    A user's function may make cycles, and so does every exception that is kept. Under constant load they would
    accumulate until the worker is killed for its memory. Objects in use at a collection are old from then on, so longer
    cycles are freed by full collections only. Objects from before the loop are frozen, and never collected.
    """

    def __init__(self, *, clock: Callable[[], float], every_s: float = 5.0, all_every: int = 60) -> None:
        self._clock = clock
        self._every_s = every_s
        self._all_every = all_every
        self._collections = 0
        self._collected_at = clock()

    def collect_if_due(self) -> None:
        now = self._clock()
        if now - self._collected_at >= self._every_s:
            self._collected_at = now
            self._collections += 1
            gc.collect(_ALL if self._collections % self._all_every == 0 else _YOUNG)
