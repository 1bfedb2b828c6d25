"""Makes the recorded journals of Kafka Streams again: `python -m tests.support.streams_recording` writes them.

Each scene is an application of its own, whose id is the scene's name, so that one broker's journals hold all of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from app.core.fencing.comeback import streams_id
from app.core.journals.live_transactions import EpochStepKind, LiveTransaction
from app.core.journals.transaction_state import TransactionStatus
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.cluster_client import ask
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.journal_events import ids_of
from tests.support.kafka_clients import initialise
from tests.support.kafka_tools import compile_streams_program, running_program, source_of
from tests.support.recordings import STREAMS_RECORDED
from tests.support.topics import create_topic
from tests.support.waiting import wait_for

PROGRAM = "StreamsInstance"
LONG_MS = 30_000
SHORT_MS = 2_000
RESTART_MS = 120_000
"""Longer than a JVM needs to start on a busy machine."""
POISON = "poison"
_DEADLINE_S = 120.0
_SETTINGS = {
    **TEST_BROKER_SETTINGS,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
}


@dataclass(frozen=True)
class Stage:
    """A broker whose topic `source` grows without end, and the compiled program."""

    bootstrap_servers: str
    class_path: str
    folder: Path
    source: str = "orders"
    sink: str = "orders.copied"

    def ids(self, application: str) -> dict[str, LiveTransaction]:
        return {
            name: live
            for name, live in ids_of(self.bootstrap_servers).items()
            if (parts := streams_id(name)) is not None and parts.application == application
        }

    def members(self, application: str) -> int:
        attempt = ConnectionAttempt(self.bootstrap_servers, _DEADLINE_S)
        described = ask(
            {"bootstrap.servers": self.bootstrap_servers},
            attempt,
            application,
            lambda client: client.describe(application),
        )
        return len(described.members)

    @contextmanager
    def instance(
        self,
        application: str,
        folder: str = "state",
        *,
        protocol: str = "classic",
        session_ms: int = LONG_MS,
        transaction_ms: int = LONG_MS,
        poison: str = "",
    ) -> Generator[Instance]:
        """One process of the application that has begun to commit."""
        state, before = self.folder / application / folder, self.ids(application)
        state.mkdir(parents=True, exist_ok=True)
        arguments = (self.bootstrap_servers, self.source, self.sink, str(state), application, protocol)
        output = self.folder / f"{application}-{folder}.txt"
        with running_program(
            PROGRAM, self.class_path, *arguments, str(session_ms), str(transaction_ms), poison, output=output
        ) as process:
            wait_for(
                lambda: any(
                    live.commits > (before[name].commits if name in before else 0)
                    for name, live in self.ids(application).items()
                ),
                _DEADLINE_S,
                lambda: f"commits of {application}: {output.read_text()[-2_000:]}",
            )
            own = sorted(self.ids(application).keys() - before.keys()) or sorted(before)
            yield Instance(self, application, process.pid, own[0])


@dataclass(frozen=True)
class Instance:
    stage: Stage
    application: str
    pid: int
    transactional_id: str

    @property
    def live(self) -> LiveTransaction:
        return self.stage.ids(self.application)[self.transactional_id]

    def stop(self, how: signal.Signals) -> None:
        """Freeze or kill it while its transaction is open."""

        def is_open() -> bool:
            os.kill(self.pid, signal.SIGSTOP)
            found = self.live.state.status is TransactionStatus.ONGOING
            if not found:
                os.kill(self.pid, signal.SIGCONT)
            return found

        wait_for(is_open, _DEADLINE_S, f"an open transaction of {self.transactional_id}")
        os.kill(self.pid, how)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wait_until(self, condition: Callable[[LiveTransaction], bool], what: str) -> None:
        wait_for(lambda: condition(self.live), _DEADLINE_S, lambda: f"{what} of {self.transactional_id}: {self.live}")

    def wait_for_commits(self, more: int = 2) -> None:
        wanted = self.live.commits + more
        self.wait_until(lambda live: live.commits >= wanted, "more commits")


def is_used_again(live: LiveTransaction, *, times: int = 1) -> bool:
    """A producer of the id began after another, and has done something; it stays so after all later acts."""
    begun = [step for step in live.steps if step.kind is EpochStepKind.INITIALISED]
    return len(begun) > times and live.offset > begun[-1].offset


def is_initialised_again(live: LiveTransaction, *, times: int = 1) -> bool:
    """The same, and what it did last was to commit."""
    return is_used_again(live, times=times) and live.state.status is TransactionStatus.COMPLETE_COMMIT


def frozen_short(stage: Stage) -> None:
    with stage.instance("frozen-short") as one:
        one.stop(signal.SIGSTOP)
        threading.Event().wait(SHORT_MS / 1000)
        one.thaw()
        one.wait_for_commits()


def frozen_past_session(stage: Stage, application: str = "frozen-past-session", protocol: str = "classic") -> str:
    """Another instance has its partitions meanwhile, and its transaction stays open until it comes back. Its id."""
    with ExitStack() as stack:
        one = stack.enter_context(stage.instance(application, protocol=protocol, session_ms=SHORT_MS))
        stack.enter_context(stage.instance(application, "other", protocol=protocol, session_ms=SHORT_MS))
        wait_for(lambda: stage.members(application) == 2, _DEADLINE_S, "two members")
        one.wait_for_commits(1)
        one.stop(signal.SIGSTOP)
        wait_for(lambda: stage.members(application) == 1, _DEADLINE_S, "the frozen member to be removed")
        one.thaw()
        one.wait_until(is_initialised_again, "the return")
        return one.transactional_id


def frozen_past_session_streams(stage: Stage) -> str:
    return frozen_past_session(stage, "frozen-past-session-streams", "streams")


def frozen_past_transaction(stage: Stage) -> None:
    with stage.instance("frozen-past-transaction", transaction_ms=SHORT_MS) as one:
        _time_out(one)
        one.wait_for_commits()


def frozen_past_both(stage: Stage) -> None:
    with stage.instance("frozen-past-both", session_ms=SHORT_MS, transaction_ms=SHORT_MS) as one:
        _time_out(one, is_over=lambda: stage.members("frozen-past-both") == 0)
        one.wait_for_commits()


def _time_out(one: Instance, *, is_over: Callable[[], bool] = lambda: True) -> None:
    one.stop(signal.SIGSTOP)
    one.wait_until(
        lambda live: live.state.status is TransactionStatus.COMPLETE_ABORT and is_over(), "the abort at its timeout"
    )
    one.thaw()


def killed_with_its_folder(stage: Stage) -> str:
    """The id that both processes had."""
    with stage.instance("killed-kept", session_ms=SHORT_MS, transaction_ms=RESTART_MS) as one:
        one.stop(signal.SIGKILL)
    with stage.instance("killed-kept", session_ms=SHORT_MS) as again:
        again.wait_until(is_initialised_again, "the restart")
        return again.transactional_id


def killed_without_its_folder(stage: Stage) -> None:
    with stage.instance("killed-fresh", session_ms=SHORT_MS, transaction_ms=SHORT_MS) as one:
        one.stop(signal.SIGKILL)
    with stage.instance("killed-fresh", "empty", session_ms=SHORT_MS, transaction_ms=SHORT_MS) as other:
        other.wait_for_commits()
        one.wait_until(lambda live: live.state.status is TransactionStatus.COMPLETE_ABORT, "the abort at its timeout")


def thread_replaced(stage: Stage) -> None:
    with stage.instance("thread-replaced", poison=POISON) as one:
        feeder = Producer({"bootstrap.servers": stage.bootstrap_servers})
        feeder.produce(stage.source, POISON, partition=0)
        assert feeder.flush(_DEADLINE_S) == 0
        known = stage.ids("thread-replaced").keys()
        wait_for(
            lambda: stage.ids("thread-replaced").keys() != known or is_initialised_again(one.live),
            _DEADLINE_S,
            lambda: f"a thread in the place of the one that ended: {stage.ids('thread-replaced')}",
        )


def copied_folder(stage: Stage) -> None:
    """The negative control: a second process with a copy of the state folder, and so with the same process id."""
    with stage.instance("copied-folder", transaction_ms=RESTART_MS) as one:
        shutil.copytree(stage.folder / "copied-folder" / "state", stage.folder / "copied-folder" / "copy")
        with stage.instance("copied-folder", "copy", transaction_ms=RESTART_MS):
            one.wait_until(lambda live: is_initialised_again(live, times=4), "takeovers to and fro")


SCENES = (
    frozen_past_session,
    frozen_past_session_streams,
    frozen_short,
    frozen_past_transaction,
    frozen_past_both,
    killed_with_its_folder,
    killed_without_its_folder,
    thread_replaced,
    copied_folder,
)


@contextmanager
def feeding(stage: Stage) -> Generator[None]:
    """The source has two partitions, and gets a record in each every 50 ms."""
    for topic in (stage.source, stage.sink):
        create_topic(stage.bootstrap_servers, topic, partitions=2)
    producer, stopping = Producer({"bootstrap.servers": stage.bootstrap_servers}), threading.Event()

    def feed() -> None:
        while not stopping.wait(0.05):
            for partition in range(2):
                producer.produce(stage.source, b"order", key=b"key", partition=partition)
            producer.poll(0)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
        producer.flush(_DEADLINE_S)


def record() -> None:
    folder = Path(tempfile.mkdtemp(prefix="fenceline-recording-"))
    try:
        with KafkaCluster.start(overrides=_SETTINGS, data_dir=folder / "broker") as cluster:
            servers = cluster.bootstrap_servers
            # Makes the journal of transactions.
            initialise(Producer({"bootstrap.servers": servers, "transactional.id": "first"}))
            stage = Stage(servers, compile_streams_program(source_of(PROGRAM), folder / "classes"), folder)
            with feeding(stage), ThreadPoolExecutor(2) as pool:
                for played in [pool.submit(scene, stage) for scene in SCENES]:
                    played.result()
            STREAMS_RECORDED.mkdir(parents=True, exist_ok=True)
            for topic in ("__transaction_state", "__consumer_offsets"):
                (segment,) = (cluster.broker(1).data_dir / "data" / f"{topic}-0").glob("*.log")
                shutil.copyfile(segment, STREAMS_RECORDED / f"{topic}.log")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    record()
