"""librdkafka's statistics of a producer: its id and epoch, and the causes of slow deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from workers.loop.control import ProducerIdentity

_MICROSECONDS = 1e6
_SLOW_ANSWER_S = 0.5
_UP = "UP"


class _Eos(msgspec.Struct):
    producer_id: int = -1
    producer_epoch: int = -1


class _Identity(msgspec.Struct):
    """The part with the producer's id and epoch."""

    eos: _Eos = msgspec.field(default_factory=_Eos)


class _StatisticsWindow(msgspec.Struct):
    avg: float = 0
    max: float = 0


class _Broker(msgspec.Struct):
    """rtt in microseconds, throttle in milliseconds."""

    nodeid: int = -1
    nodename: str = ""
    state: str = _UP
    outbuf_msg_cnt: int = 0
    waitresp_cnt: int = 0
    rtt: _StatisticsWindow = msgspec.field(default_factory=_StatisticsWindow)
    throttle: _StatisticsWindow = msgspec.field(default_factory=_StatisticsWindow)


class _PartitionStatistics(msgspec.Struct):
    leader: int = -1
    msgq_cnt: int = 0
    xmit_msgq_cnt: int = 0


class _Topic(msgspec.Struct):
    partitions: dict[str, _PartitionStatistics] = msgspec.field(default_factory=dict[str, _PartitionStatistics])


class _Queues(msgspec.Struct):
    msg_cnt: int = 0
    msg_size: int = 0
    brokers: dict[str, _Broker] = msgspec.field(default_factory=dict[str, _Broker])
    topics: dict[str, _Topic] = msgspec.field(default_factory=dict[str, _Topic])


class Statistics:
    """Receives them. An object of its own: the producer holds it, and must not be held by it.

    transactional_id: None where the producer's identity is not needed.
    """

    def __init__(self, transactional_id: str | None) -> None:
        self.identity: ProducerIdentity | None = None
        self.is_of_now = True
        self._transactional_id = transactional_id
        self._keeps = False
        self._kept: str | None = None

    def __call__(self, statistics: str) -> None:
        if self._keeps:
            self._kept = statistics
        if self._transactional_id is None or (self.identity is not None and self.is_of_now):
            # The identity changes in an abort only. Statistics name every partition of the sink, and many producers
            # emit them.
            return
        eos = msgspec.json.decode(statistics, type=_Identity).eos
        if eos.producer_id >= 0:
            self.identity = ProducerIdentity(eos.producer_id, eos.producer_epoch, self._transactional_id)
            self.is_of_now = True

    def keep(self) -> None:
        """Keep the newest from now on, until `forget`, since outputs take long."""
        self._keeps = True

    def forget(self) -> None:
        self._keeps, self._kept = False, None

    def cause(self) -> str | None:
        """The cause in the newest kept statistics; None: nothing was kept, or nothing in them is slow."""
        return None if self._kept is None else slowness_in(self._kept)


class Slowness(NamedTuple):
    """The delivered part of a checkpoint's outputs, and the known cause of the missing rest."""

    delivered: float
    cause: str | None


def slowness_in(statistics: str) -> str | None:
    """The slow parts of brokers in the statistics, in one phrase or several; None: nothing.

    Field names: librdkafka's STATISTICS.md.
    """
    found = msgspec.json.decode(statistics, type=_Queues)
    brokers = [broker for broker in found.brokers.values() if broker.nodeid >= 0]
    said = [clause for broker in brokers for clause in _of_broker(broker)]
    queued = [
        (one.msgq_cnt + one.xmit_msgq_cnt, f"{topic}-{number}", one.leader)
        for topic, partitions in found.topics.items()
        for number, one in partitions.partitions.items()
        if number != "-1"
    ]
    if found.msg_cnt:
        most = max(queued, default=(0, "", -1))
        where = f", most for {most[1]} (leader: broker {most[2]})" if most[0] else ""
        said.append(f"{found.msg_cnt:,} outputs of {found.msg_size:,} bytes waited in the client{where}")
    return "; ".join(said) or None


def _of_broker(broker: _Broker) -> Iterable[str]:
    name = f"broker {broker.nodeid} ({broker.nodename})" if broker.nodename else f"broker {broker.nodeid}"
    is_used = broker.outbuf_msg_cnt or broker.waitresp_cnt
    if broker.throttle.max > 0:
        yield f"{name} throttles this client by up to {broker.throttle.max:,.0f} ms (a quota)"
    if broker.state != _UP and is_used:
        yield f"{name} is not connected ({broker.state})"
    elif broker.rtt.avg / _MICROSECONDS >= _SLOW_ANSWER_S:
        yield f"{name} answers in {broker.rtt.avg / _MICROSECONDS:.1f} s on average"
    elif broker.waitresp_cnt:
        yield f"{name} has {broker.waitresp_cnt} requests unanswered"
