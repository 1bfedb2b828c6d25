"""Each check detects a violation: a part that it relies on is broken on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from app.products.conformance.checking.bench import READ_UNCOMMITTED, Bench
from app.products.conformance.checking.checks import CHECKS
from app.products.conformance.checking.clients import TopicReader, Writer
from app.products.conformance.report import ConformanceVerdict
from tests.products.conformance.checking.conftest import MakeCheck


class NotIsolated(Bench):
    """A read_committed consumer that gets everything."""

    def reader(self, topic: str) -> TopicReader:
        return self._reader(topic, READ_UNCOMMITTED)


class Plain(Writer):
    """A producer without transactions."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__({name: value for name, value in settings.items() if name != "transaction.timeout.ms"})

    def begin(self) -> None:
        """Send at once, outside of a transaction."""

    def commit(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""


class NotTransactional(Bench):
    def _transactional_writer(self, settings: Mapping[str, Any], transactional_id: str) -> Writer:
        return self._keep(Plain(settings))


class CommitsOffsetsBeside(Bench):
    """Commits offsets by the consumer's own commit."""

    def send_offset(self, writer: Writer, offset: TopicPartition) -> None:
        self.outsider().commit(offsets=[offset], asynchronous=False)


class Forgetful(Writer):
    """Reports a commit, and omits it the last time."""

    commits = 0

    def commit(self) -> None:
        self.commits += 1
        if self.commits < 3:
            super().commit()


class ForgetsToCommit(Bench):
    within_s = 2.0

    def _transactional_writer(self, settings: Mapping[str, Any], transactional_id: str) -> Writer:
        return self._keep(Forgetful(settings, transactional_id=transactional_id))


class Late(Writer):
    """Delays its records until it commits."""

    def begin(self) -> None:
        self.kept: list[tuple[str, str]] = []
        super().begin()

    def send(self, topic: str, *values: str, partition: int = 0, key: str | None = None) -> None:
        self.kept += [(topic, value) for value in values]

    def commit(self) -> None:
        for topic, value in self.kept:
            super().send(topic, value)
        super().commit()


class WaitsForNothing(TopicReader):
    """Late records would never arrive."""

    def wait_for(self, *values: str) -> float:
        self.linger()
        return 0.0


class WritesAtTheCommit(Bench):
    def _transactional_writer(self, settings: Mapping[str, Any], transactional_id: str) -> Writer:
        kind = Late if transactional_id.endswith("first") else Writer
        return self._keep(kind(settings, transactional_id=transactional_id))

    def reader_of_everything(self, topic: str) -> TopicReader:
        reader = WaitsForNothing(self._settings(), topic, partitions=1)
        self._clients.callback(reader.close)
        return reader


class TakenOver(Writer):
    """Another incarnation initialises the id right after each commit."""

    def __init__(self, settings: Mapping[str, Any], *, transactional_id: str) -> None:
        super().__init__(settings, transactional_id=transactional_id)
        self._settings = settings

    def commit(self) -> None:
        super().commit()
        Writer(self._settings, transactional_id=self.transactional_id).close()


class TakesTheIdAfterTheCommit(Bench):
    def _transactional_writer(self, settings: Mapping[str, Any], transactional_id: str) -> Writer:
        return self._keep(TakenOver(settings, transactional_id=transactional_id))


class Patient(Bench):
    """A transaction timeout of one minute, and a check that waits two seconds."""

    short_timeout_ms = 60_000

    def __enter__(self) -> Patient:
        self.place.patience_s = 2
        return self


class AnIdForEachProducer(Bench):
    """The known mistake: two ids do not fence each other."""

    made = 0

    def _transactional_writer(self, settings: Mapping[str, Any], transactional_id: str) -> Writer:
        self.made += 1
        return super()._transactional_writer(settings, f"{transactional_id}-{self.made}")


class GroupOnly(Bench):
    """Group metadata without a member, as before KIP-447."""

    def metadata_of(self, member: Consumer) -> Any:
        return self.outsider().consumer_group_metadata()


class Committing(Writer):
    """Commits instead of an abort."""

    def abort(self) -> None:
        self.commit()


class CommitsInsteadOfAborting(Bench):
    def _transactional_writer(self, settings: Mapping[str, Any], transactional_id: str) -> Writer:
        return self._keep(Committing(settings, transactional_id=transactional_id))


BROKEN_BY = {
    "open-is-hidden": NotIsolated,
    "aborted-is-never-shown": NotTransactional,
    "offsets-with-outputs": CommitsOffsetsBeside,
    "committed-stays": ForgetsToCommit,
    "order-of-transactions": WritesAtTheCommit,
    "both-kinds-in-one-partition": NotIsolated,
    "retry-is-written-once": NotTransactional,
    "redone-is-shown-once": NotTransactional,
    "refused-record-is-redone": NotTransactional,
    "commit-may-be-repeated": TakesTheIdAfterTheCommit,
    "dead-producer-is-aborted": Patient,
    "second-producer-fences-the-first": AnIdForEachProducer,
    "stale-member-is-refused": GroupOnly,
    "compaction-keeps-the-last-committed": CommitsInsteadOfAborting,
}
NEVER_KEPT = {"outlives-a-broker", "coordinator-moves"}


@pytest.mark.core
@pytest.mark.parametrize(("name", "bench"), BROKEN_BY.items())
def test_a_promise_that_is_broken_is_seen(checked: MakeCheck, name: str, bench: type[Bench]) -> None:
    result = checked(name, bench=bench)
    assert result.verdict is ConformanceVerdict.BROKEN, result.said


def test_every_check_that_can_be_kept_can_be_broken() -> None:
    assert {check.name for check in CHECKS} - NEVER_KEPT == set(BROKEN_BY)
