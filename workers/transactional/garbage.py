"""The garbage collector, kept out of the loop: a full collection in a hot loop costs more than the records do."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_YOUNG = 1


@contextmanager
def quiet_garbage_collector() -> Generator[None]:
    """Collect once, set aside what lives, and collect only by `collect_young` until the block ends."""
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


def collect_young() -> None:
    """For quiet moments: a user's function may make cycles, and they must go sometime."""
    gc.collect(_YOUNG)
