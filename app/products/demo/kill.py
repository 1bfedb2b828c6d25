"""Kill a worker that has a transaction open according to the broker, and read the outcome from the journal."""

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals.transaction_state import TOPIC, JournalRecord, TransactionState, TransactionStatus
from app.core.runs.task import TaskReport
from app.edges.embedded.errors import EmbeddedError
from app.edges.kafka.transaction_journal import to_record
from app.products.demo.offsets import stable_offsets

# The time in which the broker answers requests that were in flight when the process froze.
_SETTLE_S = 0.05
_ANSWER_S = 5.0
WORKER_WORD = "pyspark"
"""A part of the command line of every Python worker of Spark."""


@dataclass(frozen=True, slots=True)
class KilledWorker:
    """A killed worker: its instance, its transactional id, and the epoch of its open transaction."""

    ordinal: int
    pid: int
    transactional_id: str
    epoch: int


class IdTail:
    """A reader of some ids' partitions of `__transaction_state`, which answers within milliseconds."""

    def __init__(self, *, bootstrap_servers: str, transactional_ids: Sequence[str]) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, **NEVER_CREATE_TOPICS, "log_level": 0})
        self._partitions = tuple(sorted({transaction_log_partition(name) for name in transactional_ids}))
        self._next = dict.fromkeys(self._partitions, 0)
        self._states: dict[str, TransactionState] = {}
        self._committed: dict[str, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "fenceline-demo-journal",
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
                "fetch.wait.max.ms": 10,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, number, 0) for number in self._partitions])

    def follow(self, transactional_id: str, timeout_s: float) -> TransactionState | None:
        """Return the id's newest state that has arrived, within milliseconds of a change; wait for one otherwise."""
        message = self._consumer.poll(timeout_s)
        if message is not None:
            self._take(message)
        return self._states.get(transactional_id)

    def state_of(self, transactional_id: str) -> TransactionState | None:
        """Return the id's newest state, after reading up to the journal's current end."""
        ends = stable_offsets(self._admin, TOPIC, self._partitions, is_end=True)
        deadline = time.monotonic() + _ANSWER_S
        while any(self._next[number] < end for number, end in ends.items()):
            if time.monotonic() > deadline:
                raise EmbeddedError(f"{TOPIC} could not be read up to {ends} within {_ANSWER_S:.0f} s")
            message = self._consumer.poll(0.1)
            if message is not None:
                self._take(message)
        return self._states.get(transactional_id)

    def _take(self, message: Message) -> None:
        if (error := message.error()) is not None:
            raise EmbeddedError(f"reading {TOPIC}: {error.str()}")
        record = to_record(message)
        if record is not None:
            self._next[record.partition] = record.offset + 1
            if isinstance(record.state, TransactionState):
                self._states[record.transactional_id] = record.state
                if record.state.status is TransactionStatus.COMPLETE_COMMIT:
                    self._committed[record.transactional_id] = record.state.producer_epoch

    def has_committed_since(self, kill: KilledWorker) -> bool:
        """Return whether a later incarnation of the killed worker's id has committed by now."""
        self.state_of(kill.transactional_id)
        return self._committed.get(kill.transactional_id, -1) > kill.epoch

    def close(self) -> None:
        self._consumer.close()
        # Closed explicitly: the garbage collector may run on this client's own thread, which would end the process.
        self._admin.__exit__(None, None, None)


def kill_inside_a_transaction(journal: IdTail, workers: Sequence[TaskReport]) -> KilledWorker | None:
    """SIGKILL the first of `workers` whose transaction is open according to the broker; None if none is open now.

    1. SIGSTOP            the worker can neither commit nor begin a transaction
    2. read the journal   its answer stays valid
    3. SIGKILL, or SIGCONT and the next one
    """
    for report in workers:
        if report.transactional_id is None:
            continue
        _refuse_other_process(report.pid)
        os.kill(report.pid, signal.SIGSTOP)
        killed = False
        try:
            time.sleep(_SETTLE_S)
            last = journal.state_of(report.transactional_id)
            # Ongoing with partitions: records were produced, which could be lost or duplicated.
            if last is not None and last.status is TransactionStatus.ONGOING and last.partitions:
                os.kill(report.pid, signal.SIGKILL)
                killed = True
                return KilledWorker(report.ordinal, report.pid, report.transactional_id, last.producer_epoch)
        finally:
            if not killed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(report.pid, signal.SIGCONT)
    return None


def aftermath(records: Sequence[JournalRecord], kill: KilledWorker) -> "Aftermath":
    """Judge the kill from all journal records of the killed worker's id, in order."""
    states = [record.state for record in records if record.transactional_id == kill.transactional_id]
    was_aborted, committed_again = False, False
    for state in states:
        if not isinstance(state, TransactionState) or state.producer_epoch <= kill.epoch:
            continue
        was_aborted |= state.status is TransactionStatus.COMPLETE_ABORT
        committed_again |= was_aborted and state.status is TransactionStatus.COMPLETE_COMMIT
    return Aftermath(was_aborted=was_aborted, committed_again=committed_again)


@dataclass(frozen=True, slots=True)
class Aftermath:
    """was_aborted: the brokers ended the open transaction. committed_again: a later incarnation of the id committed."""

    was_aborted: bool
    committed_again: bool


def _refuse_other_process(pid: int) -> None:
    """Raise if the process id is now another process, which must not be signalled."""
    try:
        command = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error as error:
        raise EmbeddedError(f"the worker with process id {pid} is gone before it was killed: {error}") from error
    if WORKER_WORD not in command:
        raise EmbeddedError(f"process {pid} is no Spark worker: {command[:200]}")
