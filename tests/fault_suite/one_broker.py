"""A stage for faults: one broker behind a proxy, and two tasks of a pipeline as processes that come back."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from app.domain.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from app.embedded.kafka import KafkaCluster
from app.embedded.ports import free_ports
from tests.fault_suite.freeze_points import FreezePoints, Point
from tests.fault_suite.plan import FREEZING, Fault, Kind
from tests.fault_suite.proxy import WELL, BrokerProxy, Conditions, Direction, Loss, Part
from tests.fault_suite.reading import Facts
from tests.fault_suite.workers import Workers
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskProcess
from tests.support.waiting import wait_for

_PROXIED = "PROXIED"
_TASKS = 2
_PARTITIONS = 4
_WITHIN_S = 40.0
_SLOW_BYTES_PER_S = 50_000
_DELAY_S = 0.3
# Who stays gets there when another one has left and comes back, and takes its share.
_OF_WHO_STAYS = (Point.IN_REVOKE, Point.BETWEEN_REVOKE_AND_ASSIGN)
_NEED_AN_END = (*_OF_WHO_STAYS, Point.BETWEEN_INIT_AND_FIRST_FETCH)

_OF_TRANSACTIONS = (Kind.COMMIT_REQUEST_LOST, Kind.COMMIT_ANSWER_LOST)

Did = Callable[[str], None]


class OneBroker:
    """A context manager: everything runs when it is entered, nothing when it is left. Which group protocol it has
    depends on the seed."""

    name = "one broker, two task processes"

    def __init__(self, seed: int, folder: Path, *, guarantee: ProcessingGuarantee) -> None:
        self._protocol = random.Random(f"{seed}/protocol").choice(list(GroupProtocol))
        self._guarantee = guarantee
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._proxy = stack.enter_context(BrokerProxy(free_ports(1)[0]))
            self._kafka = stack.enter_context(
                KafkaCluster.start(
                    data_dir=self._folder / "kafka",
                    overrides=TEST_BROKER_SETTINGS,
                    listeners={_PROXIED: "PLAINTEXT"},
                    advertised={_PROXIED: [self._proxy.port]},
                )
            )
            self._proxy.target_port = self._kafka.brokers[0].listeners[_PROXIED].port
            self.pipeline = TestPipeline.create(
                self._kafka.bootstrap_servers,
                partitions=_PARTITIONS,
                group_protocol=self._protocol,
                processing_guarantee=self._guarantee,
            )
            self._points = FreezePoints(self._folder / "freeze")
            self._workers = Workers(_TASKS, self._launch)
            stack.callback(self._workers.close)
            stack.callback(self._points.thaw_all)
            self._workers.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What needs no transaction can be done to at_least_once too: the negative control of a run."""
        if self._guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
            return tuple(Kind)
        return tuple(kind for kind in Kind if kind not in (*FREEZING, *_OF_TRANSACTIONS))

    @property
    def facts(self) -> Facts:
        definition = self.pipeline.definition
        return Facts(
            self._kafka.bootstrap_servers,
            source=self.pipeline.source,
            sink=definition.sink_topic,
            group=definition.group_id,
        )

    def settle(self) -> None:
        """End whatever a fault may have left, so that the pipeline can come to rest."""
        self._proxy.heal()
        self._points.thaw_all()
        self._kafka.brokers[0].resume()

    def drain(self) -> None:
        """Every worker commits and leaves."""
        self._workers.drain()

    def do(self, fault: Fault, did: Did, *, wait: Callable[[float], object]) -> None:
        """Do it, wait for as long as it lasts, and end it. `did` is told whom it has hit, once it has.

        Raises AssertionError where it could not be done.
        """
        match fault.kind:
            case Kind.WORKER_KILLED | Kind.WORKER_TERMINATED:
                self._end_worker(fault, did)
            case Kind.WORKER_FROZEN | Kind.WORKER_REPLACED:
                self._freeze(fault, did, wait)
            case Kind.BROKER_KILLED:
                self._kafka.brokers[0].kill()
                did("broker 1 killed")
                wait(fault.lasts_s)
                self._kafka.brokers[0].start()
            case Kind.BROKER_PAUSED:
                self._kafka.brokers[0].pause()
                did("broker 1 paused")
                wait(fault.lasts_s)
                self._kafka.brokers[0].resume()
            case Kind.CONNECTIONS_CUT:
                did(f"{self._proxy.connections} connections cut")
                self._proxy.cut()
            case Kind.COMMIT_REQUEST_LOST:
                self._lose(Loss(Part.REQUEST, silence_s=fault.lasts_s), did)
            case Kind.COMMIT_ANSWER_LOST:
                self._lose(Loss(Part.ANSWER, silence_s=fault.lasts_s), did)
            case Kind.BROKER_UNREACHABLE:
                self._proxy.refuse()
                did("connections refused")
                wait(fault.lasts_s)
                self._proxy.heal()
            case Kind.STALLED_TO_BROKER | Kind.STALLED_TO_CLIENT | Kind.SLOW | Kind.DELAYED:
                self._proxy.impose(_CONDITIONS[fault.kind])
                did(f"{self._proxy.connections} connections: {_CONDITIONS[fault.kind]}")
                wait(fault.lasts_s)
                self._proxy.impose(WELL)

    def _launch(self, task: int, attempt: int) -> TaskProcess:
        proxied = {"bootstrap.servers": self._kafka.bootstrap_servers_of(_PROXIED)}
        specification = self.pipeline.specification(task=task, attempt=attempt)
        return TaskProcess(
            msgspec.structs.replace(specification, client_config={**specification.client_config, **proxied}),
            self._folder / "workers" / f"task-{task}-attempt-{attempt}",
            environment=self._points.environment_of(os.environ),
        )

    def _end_worker(self, fault: Fault, did: Did) -> None:
        task = fault.of(self._workers.tasks)
        name = self._workers.name(task)
        how = signal.SIGKILL if fault.kind is Kind.WORKER_KILLED else signal.SIGTERM
        os.kill(self._workers.current(task).pid, how)
        did(f"{name}: {how.name}")

    def _freeze(self, fault: Fault, did: Did, wait: Callable[[float], object]) -> None:
        task = fault.of(self._workers.tasks)
        name, worker = self._workers.name(task), self._workers.current(task)
        if fault.point is None:
            worker.freeze()
            pid = worker.pid
            did(f"{name}: frozen")
        else:
            other = self._workers.current((task + 1) % _TASKS)
            self._points.ask(fault.point, pid=other.pid if fault.point in _OF_WHO_STAYS else None)
            if fault.point in _NEED_AN_END:
                os.kill(worker.pid, signal.SIGTERM)
                did(f"{name}: SIGTERM")
            pid = self._points.wait_until_frozen(fault.point, _WITHIN_S)
            did(f"pid {pid}: frozen {fault.point}")
        if fault.kind is Kind.WORKER_REPLACED:
            frozen = self._workers.task_of(pid)
            self._workers.replace(frozen)
            did(f"replaced by {self._workers.name(frozen)}")
        wait(fault.lasts_s)
        self._points.thaw(pid)

    def _lose(self, loss: Loss, did: Did) -> None:
        before = len(self._proxy.lost)
        self._proxy.lose(loss)
        wait_for(lambda: len(self._proxy.lost) > before, _WITHIN_S, f"an EndTxn of which the {loss.part} could be lost")
        did(str(self._proxy.lost[before]))


_CONDITIONS = {
    Kind.STALLED_TO_BROKER: Conditions(stalled=frozenset({Direction.TO_BROKER})),
    Kind.STALLED_TO_CLIENT: Conditions(stalled=frozenset({Direction.TO_CLIENT})),
    Kind.SLOW: Conditions(bytes_per_s=_SLOW_BYTES_PER_S),
    Kind.DELAYED: Conditions(delay_s=_DELAY_S),
}
