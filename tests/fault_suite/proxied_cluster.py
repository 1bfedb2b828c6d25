"""Brokers behind proxies; what is done to them, to the network before them, and to what they tell each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka.admin import AdminClient  # pyright: ignore[reportPrivateImportUsage]

from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals.group_records import TOPIC as GROUP_JOURNAL
from app.core.journals.transaction_state import TOPIC as TRANSACTION_STATE
from app.edges.embedded.kafka import KafkaBroker, KafkaCluster
from app.edges.embedded.ports import free_ports
from tests.fault_suite.leaders import At, move_leaders
from tests.fault_suite.marker_gate import MarkerGate
from tests.fault_suite.plan import Fault, Kind, NotDoneError
from tests.fault_suite.prepared import move_prepared
from tests.fault_suite.proxy import BrokerProxy, Conditions, Direction, Loss, Lost, Part
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.quiet import QUIET
from tests.support.waiting import wait_for

Did = Callable[[str], None]
Wait = Callable[[float], object]

_PROXIED = "PROXIED"
_BETWEEN_BROKERS = "BETWEEN"
_WITHIN_S = 90.0
_SLOW_BYTES_PER_S = 50_000
_TOO_SLOW_BYTES_PER_S = 3_000
"""For one connection: a run has 2,000 records a second, and a transaction timeout passes those of a fraction of one."""
_DELAY_S = 0.3
_CONDITIONS = {
    Kind.STALLED_TO_BROKER: Conditions(stalled=frozenset({Direction.TO_BROKER})),
    Kind.STALLED_TO_CLIENT: Conditions(stalled=frozenset({Direction.TO_CLIENT})),
    Kind.SLOW: Conditions(bytes_per_s=_SLOW_BYTES_PER_S),
    Kind.DELAYED: Conditions(delay_s=_DELAY_S),
    Kind.OUTPUT_TOO_SLOW: Conditions(bytes_per_s=_TOO_SLOW_BYTES_PER_S, slowed=frozenset({Direction.TO_BROKER})),
}
_OF_SEVERAL = (
    Kind.BROKER_KILLED,
    Kind.BROKER_PAUSED,
    Kind.BROKERS_ROLLED,
    Kind.COORDINATORS_MOVED,
    Kind.PREPARED_MOVED,
)
_KINDS = (
    Kind.CONNECTIONS_CUT,
    Kind.BROKER_UNREACHABLE,
    *_CONDITIONS,
    Kind.COMMIT_REQUEST_LOST,
    Kind.COMMIT_ANSWER_LOST,
)
SKIPPED = "these partitions are likely deleted already and hence can be skipped"
"""The log line of a broker (4.3.1) that completes a transaction without markers where partitions have no leader.

They are not deleted. Aborted records there come out with the producer's next commit; committed ones are gone with its
next abort: docs/client-facts.md.
"""
SETTINGS = {
    **TEST_BROKER_SETTINGS,
    # A member of a KIP-848 group is removed after 10 s, and none may ask for less.
    "group.consumer.min.session.timeout.ms": "10000",
    # The judge reads both journals from their beginnings, and only what is in a closed segment is compacted.
    "offsets.topic.segment.bytes": str(1 << 30),
    "transaction.state.log.segment.bytes": str(1 << 30),
    "inter.broker.listener.name": _BETWEEN_BROKERS,
}


class ProxiedCluster:
    """A context manager. Clients that shall meet the network's faults use `proxied`; feeder and judge use the brokers'
    own addresses.

    group: whose coordinator is moved.
    """

    def __init__(self, brokers: int, folder: Path) -> None:
        self._count = brokers
        self._folder = folder
        self._stack = ExitStack()
        self.group = ""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.proxies = [stack.enter_context(BrokerProxy(port)) for port in free_ports(self._count)]
            self.gate = stack.enter_context(MarkerGate(free_ports(self._count)))
            self.kafka = stack.enter_context(
                KafkaCluster.start(
                    brokers=self._count,
                    data_dir=self._folder / "kafka",
                    overrides=SETTINGS,
                    listeners={_PROXIED: "PLAINTEXT", _BETWEEN_BROKERS: "PLAINTEXT"},
                    advertised={_PROXIED: [proxy.port for proxy in self.proxies], _BETWEEN_BROKERS: self.gate.ports},
                )
            )
            self.gate.targets = [broker.listeners[_BETWEEN_BROKERS].port for broker in self.kafka.brokers]
            for proxy, broker in zip(self.proxies, self.kafka.brokers, strict=True):
                proxy.target_port = broker.listeners[_PROXIED].port
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def bootstrap_servers(self) -> str:
        return self.kafka.bootstrap_servers

    @property
    def proxied(self) -> str:
        """`bootstrap.servers` of who is to be harmed."""
        return self.kafka.bootstrap_servers_of(_PROXIED)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """While a single broker is away its partitions have no leader, and markers are left out (see SKIPPED)."""
        return (*_OF_SEVERAL, *_KINDS) if self._count > 1 else _KINDS

    def settle(self) -> None:
        """End every fault that is left."""
        self.gate.let_through()
        for proxy in self.proxies:
            proxy.heal()
        for broker in self.kafka.brokers:
            if broker.is_running:
                broker.resume()
            else:
                broker.start()
        self.wait_until_in_sync()

    def do(self, fault: Fault, did: Did, *, wait: Wait) -> None:
        """Do it, wait for as long as it lasts, and end it.

        Raises AssertionError where it could not be done, NotDoneError where it came too late.
        """
        match fault.kind:
            case Kind.BROKER_KILLED:
                self._while(self._broker(fault), KafkaBroker.kill, KafkaBroker.start, fault, did, wait)
            case Kind.BROKER_PAUSED:
                self._while(self._broker(fault), KafkaBroker.pause, KafkaBroker.resume, fault, did, wait)
            case Kind.BROKERS_ROLLED:
                self.wait_until_in_sync()
                for broker in self.kafka.brokers:
                    broker.restart()
                    did(f"broker {broker.node_id} restarted")
                    self.wait_until_in_sync()
            case Kind.CONNECTIONS_CUT:
                standing = [proxy.connections for proxy in self.proxies]
                for proxy in self.proxies:
                    proxy.cut()
                if not any(standing):
                    raise NotDoneError("no client was connected")
                did(f"{standing} connections cut")
            case Kind.BROKER_UNREACHABLE:
                self._network(fault, BrokerProxy.refuse, did, wait)
            case Kind.COMMIT_REQUEST_LOST:
                self._lose(Loss(Part.REQUEST, silence_s=fault.lasts_s), did)
            case Kind.COMMIT_ANSWER_LOST:
                self._lose(Loss(Part.ANSWER, silence_s=fault.lasts_s), did)
            case Kind.COORDINATORS_MOVED:
                self._move_coordinators(fault, did)
            case Kind.PREPARED_MOVED:
                self.wait_until_in_sync()
                move_prepared(self.bootstrap_servers, self.gate, did, wait=wait)
            case _:
                conditions = _CONDITIONS[fault.kind]
                self._network(fault, lambda proxy: proxy.impose(conditions), did, wait)

    def wait_until_in_sync(self) -> None:
        """Until every partition has all of its replicas in sync, and a leader."""
        asking = AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET})

        def behind() -> list[str]:
            topics = asking.list_topics(timeout=_WITHIN_S).topics
            return [
                f"{topic}-{number}"
                for topic in topics
                for number, partition in topics[topic].partitions.items()
                if partition.leader < 0 or len(partition.isrs) < len(partition.replicas)
            ]

        wait_for(lambda: not behind(), _WITHIN_S, lambda: f"all replicas in sync; behind are {behind()[:5]}")

    def leaders(self) -> dict[At, int]:
        """The leader of every partition of every topic, the internal ones included; -1: none."""
        asking = AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET})
        topics = asking.list_topics(timeout=_WITHIN_S).topics
        return {
            At(topic, number): partition.leader
            for topic in topics
            for number, partition in topics[topic].partitions.items()
        }

    def skipped_markers(self) -> int:
        """The number of transactions that the brokers report as completed without all of their markers. One that shuts
        down in the middle of a commit does not report it."""
        return sum(
            broker.log_path.read_text(encoding="utf-8", errors="replace").count(SKIPPED)
            for broker in self.kafka.brokers
        )

    def _broker(self, fault: Fault) -> KafkaBroker:
        return self.kafka.brokers[fault.of(range(self._count))]

    def _while(
        self,
        broker: KafkaBroker,
        harm: Callable[[KafkaBroker], None],
        mend: Callable[[KafkaBroker], None],
        fault: Fault,
        did: Did,
        wait: Wait,
    ) -> None:
        # One at a time is what three replicas are for. With no leader left, 4.3.1 leaves markers out (see SKIPPED).
        self.wait_until_in_sync()
        harm(broker)
        did(f"broker {broker.node_id}: {harm.__name__}")
        wait(fault.lasts_s)
        mend(broker)

    def _network(self, fault: Fault, harm: Callable[[BrokerProxy], None], did: Did, wait: Wait) -> None:
        """To one broker, or to all of them at once."""
        choices: list[Sequence[BrokerProxy]] = [[proxy] for proxy in self.proxies]
        if fault.kind is Kind.OUTPUT_TOO_SLOW:
            # One broker of three would leave partitions whose outputs are quick.
            choices = [self.proxies]
        elif self._count > 1:
            choices.append(self.proxies)
        harmed = choices[fault.of(range(len(choices)))]
        for proxy in harmed:
            harm(proxy)
            did(f"broker {self.proxies.index(proxy) + 1}: {proxy.connections} connections under {proxy.conditions}")
        wait(fault.lasts_s)
        for proxy in harmed:
            proxy.heal()

    def _lose(self, loss: Loss, did: Did) -> Lost:
        """Hit the first transaction that comes to any coordinator."""
        before = {proxy.port: len(proxy.lost) for proxy in self.proxies}

        def lost() -> list[Lost]:
            return [one for proxy in self.proxies for one in proxy.lost[before[proxy.port] :]]

        for proxy in self.proxies:
            proxy.lose(loss)
        first = wait_for(lost, _WITHIN_S, f"an EndTxn of which the {loss.part} could be lost")[0]
        for proxy in self.proxies:
            # The others need not lose theirs any more.
            proxy.heal()
        did(str(first))
        return first

    def _move_coordinators(self, fault: Fault, did: Did) -> None:
        """In the middle of a commit: one that the coordinator has not received, or whose answer has not arrived."""
        part = Part.REQUEST if fault.which < 1 / 2 else Part.ANSWER
        lost = self._lose(Loss(part, silence_s=fault.lasts_s), did)
        topics = (
            AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET}).list_topics(timeout=_WITHIN_S).topics
        )
        wanted = [
            # Both coordinators are found by the same hash of a name.
            At(topic, transaction_log_partition(name, len(topics[topic].partitions)))
            for topic, name in ((TRANSACTION_STATE, lost.transactional_id), (GROUP_JOURNAL, self.group))
        ]
        for moved in move_leaders(self.bootstrap_servers, wanted, deadline_s=_WITHIN_S):
            did(moved)
        took_s = time.time() - lost.at
        if took_s > lost.loss.silence_s:
            raise NotDoneError(
                f"they had moved {took_s:.1f} s later; the client gets the answer after {lost.loss.silence_s:g} s"
            )
