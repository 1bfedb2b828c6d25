"""The act of a task or driver on the order of a drill: once, after it was granted, and only to its own processes."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable

import msgspec

from app.core.wire import protocol
from app.core.wire.drill import DRILL_PATH, ActStep, DrillAct, DrillAnswer, DrillOrder, DrillReport
from workers.drills.freezing import NoWatchdogError, Watchdog
from workers.server_client import ServerAwayError, ServerClient, ServerRefusedError

log = logging.getLogger(__name__)


class DrillPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt that this process runs, and that acts. The driver of a query has the place of its first writer."""

    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    host: str
    pid: int


class DrillOrders:
    """Carries out orders of drills, each at most once, on a thread of its own: heartbeats and data do not wait for it.

    1. the watchdog is ready    nothing is stopped without a process that thaws it
    2. the claim is granted     by the server, on a locked row: once, to the attempt that was meant, and in time
    3. the act                  if a granted claim is lost on its way back nothing is done: at most once, never twice

    allowed: by the definition that this instance runs; without it an order is refused here, too.
    with_parent: the parent of this process is frozen, too.
    """

    def __init__(
        self,
        place: DrillPlace,
        *,
        allowed: bool,
        urls: tuple[str, ...],
        token: str,
        with_parent: bool = False,
        kill: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGKILL),
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._allowed = allowed
        self._urls = urls
        self._token = token
        self._with_parent = with_parent
        self._kill = kill
        self._now_s = now_s
        self._heard: set[str] = set()

    def hear(self, order: DrillOrder) -> threading.Thread | None:
        """Take the order of a heartbeat's answer; return the thread that acts on it, if it is new."""
        if order.drill_id in self._heard:
            return None
        self._heard.add(order.drill_id)
        begin_by_s = self._now_s() + order.begin_within_s
        thread = threading.Thread(target=self._act, args=(order, begin_by_s), name="fenceline-drill", daemon=True)
        thread.start()
        return thread

    def _act(self, order: DrillOrder, begin_by_s: float) -> None:
        client = ServerClient(self._urls, self._token)
        try:
            if not self._allowed:
                self._tell(client, order, ActStep.REFUSED, "the definition that this instance runs allows no drills")
            elif order.act is DrillAct.KILL:
                if self._is_granted(client, order, begin_by_s):
                    log.warning("drill %s: this process kills itself now", order.drill_id)
                    self._kill()
            else:
                self._freeze(client, order, begin_by_s)
        except (ServerAwayError, ServerRefusedError, protocol.UnsupportedProtocolError) as error:
            log.warning("drill %s is not done: %s", order.drill_id, error)
        finally:
            client.close()

    def _freeze(self, client: ServerClient, order: DrillOrder, begin_by_s: float) -> None:
        report = msgspec.to_builtins(self._report(order, ActStep.FROZEN))
        try:
            with Watchdog(
                for_s=order.for_s, urls=self._urls, token=self._token, report=report, with_parent=self._with_parent
            ) as watchdog:
                if self._is_granted(client, order, begin_by_s):
                    log.warning("drill %s: this process is frozen for %g s now", order.drill_id, order.for_s)
                    watchdog.freeze()
                    log.warning("drill %s: this process continues", order.drill_id)
        except (NoWatchdogError, OSError) as error:
            self._tell(client, order, ActStep.REFUSED, str(error))

    def _is_granted(self, client: ServerClient, order: DrillOrder, begin_by_s: float) -> bool:
        answer = self._tell(client, order, ActStep.CLAIMED, "")
        if answer.goes_on and self._now_s() <= begin_by_s:
            return True
        log.warning("drill %s is not done: %s", order.drill_id, answer.reason or "the answer came too late")
        return False

    def _tell(self, client: ServerClient, order: DrillOrder, step: ActStep, message: str) -> DrillAnswer:
        return client.post(DRILL_PATH, self._report(order, step, message), DrillAnswer)

    def _report(self, order: DrillOrder, step: ActStep, message: str = "") -> DrillReport:
        return DrillReport(drill_id=order.drill_id, step=step, message=message, **msgspec.structs.asdict(self._place))
