"""The replacement in the loop for each switch. A method that does not exist any more is an AttributeError."""

# The replaced parts are the inside of the loop.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from app.core.clusters.partition import Partition
from tests.fault_suite.seams import Seam
from tests.mutations import file_seams
from tests.mutations.switches import Switch
from workers.loop import task
from workers.loop.group.confirmed import ConfirmedOffsets
from workers.loop.group.membership import Membership
from workers.loop.group.ownership import Ownership
from workers.loop.lane import Lane
from workers.loop.lane_of_each import LaneOfEach
from workers.loop.lane_state import LaneEvent
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.recovery import Recovery
from workers.loop.settling import Settling

_WITHIN_S = 20.0

Method = Callable[..., Any]


def look_away(_self: Ownership, _partition: Partition, _number: int) -> bool:
    """All partitions always count as owned and unchanged."""
    return True


def keep_it(_self: Lane) -> None:
    """The checkpoint survives the callback."""


def let_pass(_self: ConfirmedOffsets, _found: Mapping[Partition, int | None]) -> None:
    """Every answer is believed."""


def stay(self: Settling) -> LaneEvent:
    """Reading goes on where it is."""
    return LaneEvent.RESTARTED if self.is_to_restart else LaneEvent.REWOUND


def not_heard(_self: Membership, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
    """Nothing is known of a loss."""


def take_at_once(self: LaneOfEach, partitions: Sequence[Partition]) -> None:
    """The partitions are taken, and their offsets read, before anything is initialised."""
    for name in partitions:
        lane = self._lanes[name] = self._make(name)
        lane.settling.require_producer()
    self.each = tuple(self._lanes.values())


class _Nobody:
    """A consumer of the same group that is no member of it, as in clients before KIP-447."""

    def __init__(self, member: Consumer) -> None:
        self._member = member

    def consumer_group_metadata(self) -> Any:
        # librdkafka's own form: a prefix, the generation in four bytes, the group up to a zero.
        group = bytes(self._member.consumer_group_metadata()).partition(b":")[2][4:].partition(b"\0")[0].decode()
        outsider = Consumer({"group.id": group, "bootstrap.servers": ""})
        try:
            return outsider.consumer_group_metadata()
        finally:
            outsider.close()


def _for_the_group_alone() -> Method:
    send_offsets = TransactionalProducer.send_offsets

    @wraps(send_offsets)
    def send(self: TransactionalProducer, offsets: Any, consumer: Consumer, *, patience: Any) -> None:
        nobody: Any = _Nobody(consumer)
        send_offsets(self, offsets, nobody, patience=patience)

    return send


def _kept_producer() -> Method:
    replace_producer = Recovery.replace_producer

    @wraps(replace_producer)
    def replace(self: Recovery, *, outcome_unknown: bool = False, is_fenced: bool = False) -> None:
        if not outcome_unknown or is_fenced:
            replace_producer(self, outcome_unknown=outcome_unknown, is_fenced=is_fenced)
            return
        lane = self._lane
        kept, lane.producer = lane.producer, None
        lane.abandon(outcome_unknown=True)
        lane.producer = kept

    return replace


def _begun_at_any_price() -> Method:
    begin = TransactionalProducer.begin

    @wraps(begin)
    def begin_anyway(self: TransactionalProducer) -> None:
        try:
            self.live.begin_transaction()
        except KafkaException:
            # The commit that was not answered: its request is sent again, and arrives.
            self.live.commit_transaction(_WITHIN_S)
            begin(self)

    return begin_anyway


def _uncommitted() -> Method:
    consumer_config = task.consumer_config

    @wraps(consumer_config)
    def config(specification: Any) -> Any:
        return {**consumer_config(specification), "isolation.level": "read_uncommitted"}

    return config


_SEAMS: dict[Switch, Callable[[], Seam]] = {
    Switch.OWNERSHIP_NUMBER: lambda: Seam(Ownership, "is_unchanged", look_away),
    Switch.GENERATION: lambda: Seam(TransactionalProducer, "send_offsets", _for_the_group_alone()),
    Switch.REWIND: lambda: Seam(Settling, "_rewind", stay),
    Switch.ABORT_ON_LOST: lambda: Seam(Membership, "on_lost", not_heard),
    Switch.DISCARD_PRODUCER: lambda: Seam(Recovery, "replace_producer", _kept_producer()),
    Switch.READ_COMMITTED: lambda: Seam(task, "consumer_config", _uncommitted()),
    Switch.INIT_BEFORE_OFFSETS: lambda: Seam(LaneOfEach, "assigned", take_at_once),
    Switch.COMMIT_ON_REVOKE: lambda: Seam(Lane, "end_for_revoke", keep_it),
    Switch.CONFIRMED: lambda: Seam(ConfirmedOffsets, "refuse_older", let_pass),
    Switch.BEGIN_REFUSED: lambda: Seam(TransactionalProducer, "begin", _begun_at_any_price()),
    **file_seams.SEAMS,
}


def seam_of(switch: Switch) -> Seam:
    """Raises AttributeError where the loop has it no more, under that name or as a method of it."""
    seam = _SEAMS[switch]()
    getattr(seam.owner, seam.name)
    return seam


@contextmanager
def switched_off(switches: Iterable[Switch]) -> Generator[None]:
    """In this process, until the block is left."""
    before: list[Seam] = []
    try:
        for switch in switches:
            seam = seam_of(switch)
            before.append(Seam(seam.owner, seam.name, getattr(seam.owner, seam.name)))
            setattr(seam.owner, seam.name, seam.value)
        yield
    finally:
        for seam in reversed(before):
            setattr(seam.owner, seam.name, seam.value)
