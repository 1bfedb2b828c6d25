"""A call of the client that does not keep its own timeout, made so that ours holds all the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from workers.loop.slices import SLICE_S, Patience

THREAD_NAME = "overdue call"
"""Of the thread that a call is made in: as long as it lives, so does what the call works on."""


def ends_within(call: Callable[[], None], patience: Patience) -> bool:
    """Make the call in a thread of its own; False when patience ended first: it then goes on by itself, unheard.

    Whoever gets False must not use again what the call works on. Raises what the call raised.
    """
    ended = threading.Event()
    raised: list[BaseException] = []

    def body() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
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
