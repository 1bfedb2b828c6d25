"""The reports of a query's driver: its batches, and the heartbeats of its writers in their place."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from app.core.runs.task import Counters, TaskState
from app.core.wire import protocol
from app.core.wire.drill import DrillOrder
from app.core.wire.specification import InstanceSpecification
from app.products.dataframes.wire import (
    BATCHES_PATH,
    LARGEST_REPORT,
    BatchProgress,
    QueryAnswer,
    QueryReport,
    QueryState,
)
from workers.loop.control import TaskSnapshot
from workers.reporting import HeartbeatReporter, TaskPlace
from workers.server_client import ServerAwayError, ServerClient, ServerRefusedError
from workers.spark.query_progress import Progress

log = logging.getLogger(__name__)

AGAIN_AFTER_S = 3.0
MOST_KEPT = 5_000
"""Batches that wait for a server that is away: over an hour with one batch a second, in about 5 MB."""
_AWAY = (ServerAwayError, ServerRefusedError, protocol.UnsupportedProtocolError)


class BatchReporter:
    """Sends the query's state and its batches from a thread of its own, after each batch and every few seconds.

    While no server stores them, the newest MOST_KEPT batches wait. They are sent oldest first, a full report at a time.
    """

    def __init__(
        self,
        specification: InstanceSpecification,
        client: ServerClient,
        *,
        interval_s: float = AGAIN_AFTER_S,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._specification = specification
        self._client = client
        self._interval_s = interval_s
        self._now_ms = now_ms
        self._batches: deque[BatchProgress] = deque(maxlen=MOST_KEPT)
        self._state = QueryState.STARTING
        self._query_id: str | None = None
        self._failing = False
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="fenceline-batches", daemon=True)

    def start(self) -> None:
        """Begin to report; without a configured server nothing is sent."""
        if self._client.is_configured:
            self._thread.start()

    def publish(self, query_id: str, state: QueryState, batches: Sequence[BatchProgress] = ()) -> None:
        """Send these with the next report, which is at once if there are batches."""
        self._query_id = query_id
        self._state = state
        if batches:
            self._batches.extend(batches)
            self._wake.set()

    def close(self, *, timeout_s: float = 3.0) -> None:
        """Send the batches that are left, for at most `timeout_s`."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            self._wake.clear()
            is_last = self._closing
            while self._query_id is not None and self._has_stored(self._query_id) and self._batches:
                pass
            if is_last:
                self._client.close()
                return
            self._wake.wait(self._interval_s)

    def _has_stored(self, query_id: str) -> bool:
        """Send the state and the oldest batches. Return whether the server has stored them."""
        batches = tuple(islice(self._batches, LARGEST_REPORT))
        report = QueryReport(
            run_id=self._specification.run_id,
            ordinal=self._specification.ordinal,
            lease=self._specification.lease,
            query_id=query_id,
            state=self._state,
            sent_at_ms=self._now_ms(),
            batches=batches,
        )
        try:
            answer = self._client.post(BATCHES_PATH, report, QueryAnswer)
        except _AWAY as error:
            if not self._failing:
                log.warning("batches cannot be reported, the query continues: %s", error)
            self._failing = True
            return False
        except Exception:
            # A bug of Fenceline: the thread must survive, or reports end.
            if not self._failing:
                log.exception("a report of batches failed unexpectedly; the next are tried")
            self._failing = True
            return False
        self._failing = False
        if answer.stored:
            sent = {batch.batch for batch in batches}
            while self._batches and self._batches[0].batch in sent:
                self._batches.popleft()
        return answer.stored


class WriterReports:
    """One heartbeat a second for each writer of the sink, which is a task of the instance to the server.

    The first writer's heartbeats have the partitions of the sources and the rows of all writers.
    """

    def __init__(
        self,
        specification: InstanceSpecification,
        *,
        host: str,
        client: Callable[[], ServerClient],
        drilled: Callable[[DrillOrder], object] = lambda _: None,
    ) -> None:
        """drilled: called with the orders of drills for the driver, which answers to the first writer's heartbeats."""
        query = specification.definition.dataframe
        self._reporters = [
            HeartbeatReporter(
                TaskPlace(
                    run_id=specification.run_id,
                    ordinal=specification.ordinal,
                    lease=specification.lease,
                    task=identity.task,
                    attempt=0,
                    host=host,
                    pid=os.getpid(),
                    transactional_id=identity.transactional_id,
                    database_epoch=specification.database_epoch,
                    commits_every_ms=None if query is None else query.trigger_ms,
                ),
                client(),
                ask_client=client(),
                drilled=drilled if identity.task == 0 else lambda _: None,
            )
            for identity in specification.tasks
        ]
        self._first = TaskSnapshot(state=TaskState.STARTING)

    def start(self) -> None:
        for reporter in self._reporters:
            reporter.start()

    def publish(self, state: TaskState, batches: Sequence[Progress] = ()) -> None:
        """Send `state` with the next heartbeats, and the totals up to the newest of `batches`."""
        for batch in batches:
            self._add(batch)
        for writer, reporter in enumerate(self._reporters):
            counters = Counters(transactions_committed=self._first.counters.transactions_committed)
            reporter.publish(
                TaskSnapshot(
                    state=state,
                    generation=self._first.generation,
                    partitions=self._first.partitions if writer == 0 else (),
                    counters=self._first.counters if writer == 0 else counters,
                )
            )

    def failed(self, message: str) -> None:
        for reporter in self._reporters:
            reporter.failed(message)

    def close(self) -> None:
        """Send the last states, for at most two seconds together."""
        with ThreadPoolExecutor(len(self._reporters)) as side_by_side:
            list(side_by_side.map(HeartbeatReporter.close, self._reporters))

    def _add(self, batch: Progress) -> None:
        before = self._first.counters
        metrics = batch.metrics
        generation = metrics.get("groupGeneration")
        self._first = TaskSnapshot(
            state=self._first.state,
            generation=None if generation is None else int(generation),
            partitions=batch.partitions() or self._first.partitions,
            counters=Counters(
                records_in=before.records_in + batch.input_rows,
                records_out=int(metrics.get("rowsCommitted", before.records_out)),
                transactions_committed=int(metrics.get("batchesCommitted", before.transactions_committed)),
            ),
        )
