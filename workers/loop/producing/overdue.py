"""A bound for a call of the client that does not keep its own timeout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from workers.loop.slices import SLICE_S, CallPatience

THREAD_NAME = "overdue call"
"""The name of the thread that makes a call: as long as it lives, so do the objects of the call."""


def ends_within(call: Callable[[], None], patience: CallPatience) -> bool:
    """Make the call in a thread of its own; False when patience ended first. It then continues by itself.

    After False, the objects of the call must not be used again. Raises the error of the call.
    """
    ended = threading.Event()
    raised: list[BaseException] = []

    def body() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            raised.append(error)
        finally:
            ended.set()

    threading.Thread(target=body, name=THREAD_NAME, daemon=True).start()
    deadline = time.monotonic() + patience.bound_s
    while not ended.wait(min(SLICE_S, max(0.0, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            return False
        patience.between()
    if raised:
        raise raised[0]
    return True
