"""Brokers, behind the Journals port, that say what a test puts in their mouths; and a store that forgets nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from app.core.journals import group_records, transaction_state
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.record_batch import RecordBatch
from app.core.observing.journals import AdminAnswers, FetchOutcome, LogAnswer, Restored, Tail, TopicLook
from app.core.observing.live_cluster import Folds

TRANSACTIONS = transaction_state.TOPIC
GROUPS = group_records.TOPIC


class Script:
    """Brokers that answer what a test puts in their mouths; everything else is as on an empty cluster."""

    def __init__(self) -> None:
        self.kafka_cluster_id = "kafka-1"
        self.looks = {TRANSACTIONS: TopicLook(frozenset({0})), GROUPS: TopicLook(frozenset())}
        self.logs: dict[str, list[RecordBatch]] = {TRANSACTIONS: []}
        self.refused: dict[str, str] = {}
        self.failure: Exception | None = None
        self.gone_below = 0
        self.silent: frozenset[str] = frozenset()
        self.coordinators: AdminAnswers[LiveTransaction] = AdminAnswers({}, ())
        self.group_coordinators: AdminAnswers[LiveGroup] = AdminAnswers({}, ())
        self.coordinators_answer = threading.Event()
        self.coordinators_answer.set()
        self.asked: list[bool] = []
        self.followed: list[tuple[str, int]] = []
        self.opened = 0

    @contextmanager
    def open(self, connection: Mapping[str, str], *, timeout_s: float) -> Generator[Tail]:
        self.opened += 1
        if self.failure is not None:
            raise self.failure
        yield ScriptTail(self)


class ScriptTail:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._positions: dict[str, int] = {}

    @property
    def kafka_cluster_id(self) -> str:
        return self._script.kafka_cluster_id

    def look_up(self, topic: str) -> TopicLook:
        return self._script.looks[topic]

    def follow(self, topic: str, partition: int, offset: int) -> None:
        self._script.followed.append((topic, offset))
        self._positions[topic] = offset

    def leave(self, topic: str) -> None:
        self._positions.pop(topic, None)

    def poll(self, *, timeout_s: float) -> list[LogAnswer]:
        # A broker does not answer at once; without it the observer's thread would spin.
        threading.Event().wait(0.001)
        script = self._script
        if script.failure is not None:
            raise script.failure
        answers: list[LogAnswer] = []
        for topic, position in list(self._positions.items()):
            if refusal := script.refused.get(topic):
                answers.append(LogAnswer(FetchOutcome.REFUSED, topic, 0, (), -1, -1, refusal))
            elif position < script.gone_below:
                self._positions[topic] = script.gone_below
                answers.append(LogAnswer(FetchOutcome.GONE, topic, 0, (), script.gone_below, -1))
            elif topic not in script.silent:
                log = script.logs[topic]
                batches = tuple(batch for batch in log if batch.base_offset >= position)
                self._positions[topic] = end = log[-1].last_offset + 1 if log else 0
                answers.append(LogAnswer(FetchOutcome.READ, topic, 0, batches, max(end, position), end))
        return answers

    def ask_coordinators(self, *, is_only_open: bool) -> AdminAnswers[LiveTransaction]:
        self._script.asked.append(is_only_open)
        self._script.coordinators_answer.wait()
        return self._script.coordinators

    def ask_group_coordinators(self, *, is_wanted: Callable[[str], bool]) -> AdminAnswers[LiveGroup]:
        found = {name: group for name, group in self._script.group_coordinators.found.items() if is_wanted(name)}
        return AdminAnswers(found, self._script.group_coordinators.missing)


class Store:
    """Keeps what was saved last."""

    def __init__(self) -> None:
        self.saved: Folds | None = None
        self.note = ""

    def load(self, kafka_cluster_id: str) -> Restored:
        return Restored(self.saved or Folds(), self.note)

    def save(self, kafka_cluster_id: str, folds: Folds) -> None:
        self.saved = folds
