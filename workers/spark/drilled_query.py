"""Drills of a query: its driver is frozen or killed, which is a JVM and this Python process."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable

from app.core.wire.specification import InstanceSpecification
from workers.drills.orders import DrillOrders, DrillPlace


def orders_for(specification: InstanceSpecification, *, before_kill: Callable[[], None]) -> DrillOrders:
    """Return the orders of this driver.

    before_kill: called between the grant of a kill and the kill, which must not be later than a few seconds.
    """

    def kill() -> None:
        before_kill()
        kill_driver()

    return DrillOrders(
        DrillPlace(
            run_id=specification.run_id,
            ordinal=specification.ordinal,
            lease=specification.lease,
            task=0,
            attempt=0,
            host=socket.gethostname(),
            pid=os.getpid(),
        ),
        allowed=specification.definition.allows_drills,
        urls=specification.server_urls,
        token=specification.run_token,
        with_parent=True,
        kill=kill,
    )


def kill_driver() -> None:
    """Send SIGKILL to the JVM, then to this process. The JVM first: its threads write."""
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
