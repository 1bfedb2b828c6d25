"""Read and store the references of one cluster's file pipelines, and record problems."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.service import refuse_other_cluster
from app.kit.back_off import BackOff
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import ConflictError, FencelineError, UnavailableError
from app.products.files.reading import (
    LogPlace,
    Portion,
    TopicReading,
    WatchedPipeline,
    asked_offset,
    moved,
    topics_to_read,
)
from app.products.files.service.receiving import Received, Step, keep, receive
from app.products.files.store.readings import FileReadingStore
from app.products.files.topic_ports import ReferenceConnection, ReferenceTopics

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_MESSAGES = 1_000
"""Most messages that are read at once and stored in one transaction."""
MOST_BATCHES = 4
"""Most batches of one topic in a turn, so that no pipeline delays the others."""
TELL_AGAIN_S = 10.0
"""Interval at which a read without new references is recorded."""
_ANSWER_WITHIN_S = 5.0
BACK_OFF = BackOff(1.0, 60.0)

Readings = dict[Partition, TopicReading]


class _BrokersError(Exception):
    """An error of the brokers, as distinguished from one of Postgres."""

    def __init__(self, error: FencelineError) -> None:
        super().__init__(error.message)
        self.message = error.message


class ClusterFiles:
    """Read each pipeline in `turn`. Failures of brokers are recorded for its page, those of Postgres are raised."""

    def __init__(
        self, cluster: Cluster, *, unit_of_work: UnitOfWorkFactory, topics: ReferenceTopics, clock: Clock
    ) -> None:
        self.cluster = cluster
        self._unit_of_work = unit_of_work
        self._topics = topics
        self._clock = clock
        self._held_open = ExitStack()
        self._connection: ReferenceConnection | None = None
        self._thread = _thread_of(cluster)
        self._failures = 0
        self._not_before = 0.0
        self._told: dict[str, float] = {}
        self._problems: dict[str, str] = {}

    def forget(self) -> None:
        """Forget the recorded state of pipelines, since another server may have changed it."""
        self._told.clear()
        self._problems.clear()

    async def turn(self, pipelines: Sequence[WatchedPipeline]) -> None:
        """Continue reading, with a limit for each pipeline."""
        if not pipelines or time.monotonic() < self._not_before:
            return
        names = [one.name for one in pipelines]
        async with self._unit_of_work() as uow:
            readings = await uow.of(FileReadingStore).readings(names)
        bug: Exception | None = None
        try:
            connection = self._connection or await self._connect()
            for one in pipelines:
                known = {
                    Partition(reading.topic, reading.partition): reading
                    for reading in readings.get(one.name, ())
                    if reading.kafka_cluster_id == self.cluster.kafka_cluster_id
                }
                try:
                    await self._read_pipeline(connection, one, known)
                except (_BrokersError, UnavailableError):
                    raise
                except Exception as error:
                    # The other pipelines are read before the error is raised.
                    log.exception("the references of %s could not be read", one.name)
                    bug = bug or error
            self._failures = 0
        except _BrokersError as error:
            await self._lost(error.message, names)
        if bug is not None:
            raise bug

    async def close(self) -> None:
        """Close the connection, which makes a pending request fail."""
        self._connection = None
        held_open, self._held_open = self._held_open, ExitStack()
        await asyncio.get_running_loop().run_in_executor(self._thread, held_open.close)
        self._thread.shutdown(wait=False)
        self._thread = _thread_of(self.cluster)

    async def _connect(self) -> ReferenceConnection:
        opening = await self._asked(
            lambda: self._topics.open_topics(self.cluster.connection(), timeout_s=_ANSWER_WITHIN_S)
        )
        connection = self._held_open.enter_context(opening)
        try:
            refuse_other_cluster(self.cluster, connection.kafka_cluster_id)
        except ConflictError as error:
            raise _BrokersError(error) from error
        self._connection = connection
        return connection

    async def _lost(self, problem: str, names: Sequence[str]) -> None:
        self._failures += 1
        self._not_before = time.monotonic() + BACK_OFF.wait_s(self._failures)
        await self.close()
        await self._tell_problem(names, problem)

    async def _read_pipeline(self, connection: ReferenceConnection, one: WatchedPipeline, known: Readings) -> None:
        problems: list[str] = []
        now = self._clock.now()
        topics = topics_to_read(one.sink_topic, self.cluster.kafka_cluster_id, list(known.values()), now=now)
        try:
            for topic in topics:
                is_former = topic != one.sink_topic
                problems.append(await self._read_topic(connection, one.name, topic, known, is_former=is_former))
        except ConflictError as error:
            # Another server was first; the next turn continues after it.
            log.info("the references of %s: %s", one.name, error.message)
            return
        except UnavailableError:
            raise
        except FencelineError as error:
            # The other pipelines are read all the same.
            problems.append(error.message)
        await self._tell_problem([one.name], "; ".join(filter(None, problems)))

    async def _read_topic(
        self, connection: ReferenceConnection, pipeline: str, topic: str, known: Readings, *, is_former: bool
    ) -> str:
        """Continue reading batch by batch. Return the reason if not all could be read, else an empty text."""
        described = await self._asked(lambda: connection.describe(topic))
        if described.refusal:
            # A former sink topic may be deleted: it gets no further references.
            return "" if is_former else described.refusal
        place = LogPlace(self.cluster.kafka_cluster_id, topic, described.topic_id)
        for _ in range(MOST_BATCHES):
            positions = {
                number: asked_offset(known.get(Partition(topic, number)), described.topic_id)
                for number in described.partitions
            }
            found = await self._asked(
                lambda asked=positions: connection.read(topic, asked, most_messages=MOST_MESSAGES)
            )
            brought = await self._keep(pipeline, place, found.portions, known, is_whole=not found.silent)
            if found.silent:
                return found.silent
            if not brought:
                break
        return ""

    async def _keep(
        self, pipeline: str, place: LogPlace, portions: Sequence[Portion], known: Readings, *, is_whole: bool
    ) -> bool:
        """Store the portions, and return true if anything was read. is_whole: every partition answered."""
        now = self._clock.now()
        steps: list[Step] = []
        for portion in portions:
            before = known.get(Partition(place.topic, portion.partition))
            after = moved(before, portion, place=place, now=now)
            if after != before:
                steps.append((before, after))
        is_told = time.monotonic() - self._told.get(pipeline, float("-inf")) < TELL_AGAIN_S
        if not steps and (is_told or not is_whole):
            return False
        received = await asyncio.to_thread(receive, pipeline, place.topic, portions, now=now)
        await self._write(pipeline, steps, received)
        self._told[pipeline] = time.monotonic()
        known |= {Partition(after.topic, after.partition): after for _, after in steps}
        for before, after in steps:
            _log_step(pipeline, before, after)
        return any(before is None or before.next_offset != after.next_offset for before, after in steps)

    async def _write(self, pipeline: str, steps: Sequence[Step], received: Received) -> None:
        async with self._unit_of_work() as uow:
            kept = await keep(uow, pipeline=pipeline, steps=steps, received=received, now=self._clock.now())
            await uow.commit()
        if kept.reception.strangers:
            log.warning("%s: no reference: %s", pipeline, kept.reception.stranger)
        if kept.reception.repeated:
            log.error("%s: a file has two references. %s", pipeline, kept.reception.repetition)

    async def _tell_problem(self, names: Sequence[str], problem: str) -> None:
        """Record the problem of reading these pipelines, or none with an empty text, whenever it changes."""
        news = [name for name in names if self._problems.get(name) != problem]
        if not news:
            return
        if problem:
            log.warning("the references of %s are not read: %s", ", ".join(news), problem)
        async with self._unit_of_work() as uow:
            await uow.of(FileReadingStore).note_problem(news, problem, now=self._clock.now())
            for name in news:
                uow.notify("pipeline", name)
            await uow.commit()
        self._problems |= dict.fromkeys(news, problem)

    async def _asked(self, question: Callable[[], T]) -> T:
        """Ask in this cluster's own thread, so that frozen brokers block only this cluster."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, question)
        except FencelineError as error:
            raise _BrokersError(error) from error


def _thread_of(cluster: Cluster) -> ThreadPoolExecutor:
    """Return an executor, which starts its thread at the first request."""
    return ThreadPoolExecutor(1, thread_name_prefix=f"files of {cluster.name}")


def _log_step(pipeline: str, before: TopicReading | None, after: TopicReading) -> None:
    if after.begun_again and (before is None or before.begun_again != after.begun_again):
        log.warning("%s: %s", pipeline, after.begun_again)
    lost = after.unread_offsets - (before.unread_offsets if before is not None else 0)
    if lost > 0:
        log.warning("%s: %d offsets of %s were deleted before they were read", pipeline, lost, after.name)
