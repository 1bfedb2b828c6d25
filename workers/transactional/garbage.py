"""The garbage collector, kept out of the loop: a full collection in a hot loop costs more than the records do."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager

_YOUNG = 1


@contextmanager
def quiet_garbage_collector() -> Generator[None]:
    """Collect once, set aside what lives, and collect only by a YoungCollector until the block ends."""
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


class YoungCollector:
    """Collects what is young between two checkpoints, at most once in `every_s`, busy or idle.

    A user's function may make cycles, and so does every exception that is kept: under a load that never pauses they
    would pile up until the worker is killed for its memory.
    """

    def __init__(self, *, clock: Callable[[], float], every_s: float = 5.0) -> None:
        self._clock = clock
        self._every_s = every_s
        self._collected_at = clock()

    def collect_if_due(self) -> None:
        now = self._clock()
        if now - self._collected_at >= self._every_s:
            self._collected_at = now
            gc.collect(_YOUNG)
