"""Feeds a pipeline's source at a steady rate from a thread, so that every fault hits records on their way."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

from confluent_kafka import Producer

from tests.support.pipelines import TestPipeline
from tests.support.quiet import QUIET
from tests.support.verifier import make_id

_ANSWER_S = 60.0
_ROUNDS_AT_ONCE = 20


class Feeder:
    """`records_per_s` over all partitions, those that are added meanwhile too; what it wrote is added to the pipeline's
    `fed` in batches.

    is_keyed: records have their id as their key, too, where an audit of the product finds it.
    remembers: False keeps no ids, for runs that are too long for that.
    """

    def __init__(
        self, pipeline: TestPipeline, *, records_per_s: int, remembers: bool = True, is_keyed: bool = False
    ) -> None:
        self._pipeline = pipeline
        self._remembers = remembers
        self._is_keyed = is_keyed
        self._failed: BaseException | None = None
        self._interval_s = 0.05
        self._records = records_per_s * self._interval_s
        self._next: defaultdict[int, int] = defaultdict(int)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the batch that is being written. Raises what has stopped it before."""
        self._stopping.set()
        self._thread.join(_ANSWER_S + 1)
        assert not self._thread.is_alive(), "the feeder did not stop: does the broker answer?"
        if self._failed is not None:
            raise self._failed

    def fed(self) -> list[str]:
        """All ids that the source has for certain, up to now."""
        return list(self._pipeline.fed)

    @property
    def written(self) -> int:
        """How many records the source must have, once it has stopped."""
        return sum(self._next.values())

    def _run(self) -> None:
        try:
            self._feed()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that stops this one
            self._failed = error

    def _feed(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._pipeline.bootstrap_servers,
                **QUIET,
                "linger.ms": 1,
                # A batch that is sent again is written once, also when its first broker died or hangs.
                "enable.idempotence": True,
                "request.timeout.ms": 3_000,
                "socket.timeout.ms": 3_000,
            }
        )
        due = time.monotonic()
        known = self._pipeline.partitions
        while not self._stopping.is_set():
            ids: list[str] = []
            if known < self._pipeline.partitions:
                # Some broker may not know a new topic yet; then the next round asks again.
                topics = producer.list_topics(self._pipeline.source, timeout=_ANSWER_S).topics
                known = len(topics[self._pipeline.source].partitions)
            # Records that could not be written while brokers were away or slow are caught up.
            late = int((time.monotonic() - due) / self._interval_s)
            rounds = min(_ROUNDS_AT_ONCE, 1 + max(0, late))
            each = max(1, round(rounds * self._records / known))
            for partition in range(known):
                for _ in range(each):
                    ids.append(make_id(partition, self._next[partition]))
                    self._next[partition] += 1
                    value = self._pipeline.value_of(ids[-1])
                    key = ids[-1].encode() if self._is_keyed else None
                    producer.produce(self._pipeline.source, value, key=key, partition=partition)
            assert producer.flush(_ANSWER_S) == 0
            if self._remembers:
                self._pipeline.fed.extend(ids)
            due += rounds * self._interval_s
            self._stopping.wait(max(0.0, due - time.monotonic()))
