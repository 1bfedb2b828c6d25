"""The driver's connection to the server: claims the lease, reports its slots once a second, and its outcome."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import msgspec

from app.core.wire import protocol
from app.core.wire.heartbeat import (
    Claim,
    DesiredTaskState,
    DriverAnswer,
    DriverHeartbeat,
    GoneAttempt,
    OutcomeKind,
    ReportedOutcome,
)
from workers.server_client import ServerAwayError, ServerClient, ServerRefusedError
from workers.spark import claiming
from workers.spark.application import Slots
from workers.spark.claiming import TRY_AGAIN_S

log = logging.getLogger(__name__)

CLAIM_PATH = "/workers/v1/claim"
DRIVER_PATH = "/workers/v1/driver"
OUTCOME_PATH = "/workers/v1/outcome"


class DriverPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that every message of one driver repeats."""

    run_id: str
    ordinal: int
    lease: int
    application_id: str
    host: str
    database_epoch: str


class _Nothing(msgspec.Struct):
    """The answer to an outcome."""


class DriverReporter:
    """One heartbeat a second from a thread of its own; `heard` is called with the server's answers."""

    def __init__(
        self,
        place: DriverPlace,
        client: ServerClient,
        *,
        heard: Callable[[DesiredTaskState], None],
        interval_s: float = 1.0,
    ) -> None:
        self._place = place
        self._client = client
        self._heard = heard
        self._interval_s = interval_s
        self._slots: Slots | None = None
        self._gone: tuple[GoneAttempt, ...] = ()
        self._tasks_crashing = 0
        self._is_current: bool | None = None
        self._failing = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="fenceline-driver-heartbeat", daemon=True)

    @property
    def is_current(self) -> bool | None:
        """The server's latest answer about this lease; None without an answer."""
        return self._is_current

    def claim(self, claim: Claim, *, within_s: float, give_up: Callable[[], bool]) -> None:
        """Claim the lease, before anything is run. Raises NotGrantedError.

        A server that is away is asked again until `within_s` is over. A wait costs nothing yet, but an unclaimed run
        could be a second application of the same ordinal. `give_up` ends the wait early.
        """
        claiming.claim(self._client, CLAIM_PATH, claim, what="the lease", within_s=within_s, give_up=give_up)

    def start(self) -> None:
        if self._client.is_configured:
            self._thread.start()

    def publish(self, slots: Slots, gone: tuple[GoneAttempt, ...] = (), *, tasks_crashing: int = 0) -> None:
        """Send these with the next heartbeat."""
        self._gone = gone
        self._tasks_crashing = tasks_crashing
        self._slots = slots

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(3.0)

    def tell_outcome(self, kind: OutcomeKind, message: str, *, within_s: float) -> bool:
        """Send the outcome; False if the server did not receive it within `within_s`. After `close`."""
        if not self._client.is_configured:
            return True
        place = self._place
        outcome = ReportedOutcome(
            run_id=place.run_id,
            ordinal=place.ordinal,
            lease=place.lease,
            kind=kind,
            message=message,
            application_id=place.application_id,
        )
        deadline = time.monotonic() + within_s
        while True:
            try:
                self._client.post(OUTCOME_PATH, outcome, _Nothing)
                return True
            except ServerRefusedError as error:
                log.warning("the outcome was refused: %s", error)
                return False
            except ServerAwayError as error:
                if time.monotonic() >= deadline:
                    log.warning("the server did not receive the outcome: %s", error)
                    return False
                time.sleep(TRY_AGAIN_S)

    def _beat(self) -> None:
        while not self._closing.is_set():
            if self._slots is not None:
                self._try_to_send(self._slots)
            self._closing.wait(self._interval_s)
        self._client.close()

    def _try_to_send(self, slots: Slots) -> None:
        place = self._place
        heartbeat = DriverHeartbeat(
            run_id=place.run_id,
            ordinal=place.ordinal,
            lease=place.lease,
            application_id=place.application_id,
            host=place.host,
            sent_at_ms=time.time_ns() // 1_000_000,
            executors=slots.executors,
            tasks_running=slots.tasks_running,
            tasks_waiting=slots.tasks_waiting,
            gone=self._gone,
            tasks_crashing=self._tasks_crashing,
        )
        try:
            answer = self._client.post(DRIVER_PATH, heartbeat, DriverAnswer)
        except (ServerAwayError, ServerRefusedError, protocol.UnsupportedProtocolError) as error:
            self._is_current = None
            if not self._failing:
                log.warning("driver heartbeats do not reach the server, the instance continues without it: %s", error)
            self._failing = True
            return
        except Exception:
            # A bug of Fenceline, or a machine without memory or threads: the thread must survive, or heartbeats end.
            self._is_current = None
            if not self._failing:
                log.exception("a driver heartbeat failed unexpectedly; the instance continues, and the next are tried")
            self._failing = True
            return
        if self._failing:
            log.warning("driver heartbeats reach the server again")
        self._failing = False
        restored = answer.database_epoch != place.database_epoch
        # A restored database knows an older past: its "no" does not count (app/core/wire/heartbeat.py,
        # HeartbeatAnswer).
        self._is_current = None if restored and answer.is_current is False else answer.is_current
        self._heard(answer.desired)
