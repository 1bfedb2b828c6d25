"""The same for what a file pipeline has besides."""

# The replaced parts are the inside of the loop.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from app.core.clusters.partition import Partition
from tests.fault_suite.seams import Seam
from tests.mutations.switches import Switch
from workers.loop.checkpoint import Checkpoint, CheckpointState
from workers.loop.errors import AbortableError
from workers.loop.group.membership import Membership
from workers.loop.lane import Lane
from workers.loop.lanes import OneLane
from workers.loop.slices import SLICE_S
from workers.sinks.file_sink import FileSinkWriter

_NEVER_S = 600.0

Method = Callable[..., Any]


def drop_what_is_in_no_file(self: Lane) -> None:
    """Records that were taken, and are in no file yet, are let go of with the partition."""
    checkpoint = self.current
    if checkpoint is not None and checkpoint.state is CheckpointState.OPEN:
        self._abort(checkpoint, SLICE_S)
        raise AbortableError("aborted in the callback, for the test")


def leave_it_open(_self: OneLane) -> bool:
    """The open checkpoint still exists when the client releases its partitions."""
    return False


def believe(_self: Checkpoint) -> None:
    """Filed records always count as owned."""


def hold_nothing_back(_self: Membership, _partition: Partition) -> None:
    """It is fetched from at once."""


def _without_end() -> Method:
    finish = FileSinkWriter.finish

    @wraps(finish)
    def finish_some_time(self: FileSinkWriter, *, bound_s: float, between: Callable[[], None]) -> None:
        finish(self, bound_s=_NEVER_S, between=between)

    return finish_some_time


def _where_it_was_read() -> Method:
    """As where a client keeps its position in a partition that it has had before."""
    init = Membership.__init__

    @wraps(init)
    def remember(self: Membership, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        on_revoke, take = self.on_revoke, self._take
        stood: dict[Partition, int] = {}

        def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            found = consumer.position([TopicPartition(entry.topic, entry.partition) for entry in partitions])
            stood.update(
                {Partition(entry.topic, entry.partition): entry.offset for entry in found if entry.offset >= 0}
            )
            on_revoke(consumer, partitions)

        def take_up(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            names = [Partition(entry.topic, entry.partition) for entry in partitions]
            take(
                consumer,
                [TopicPartition(*name, stood[name]) if name in stood else TopicPartition(*name) for name in names],
            )

        self.on_revoke, self._take = revoked, take_up  # pyright: ignore[reportAttributeAccessIssue]

    return remember


def _with_the_assignment() -> Method:
    """As where both were one event of one poll."""
    init = Membership.__init__

    @wraps(init)
    def together(self: Membership, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        on_revoke, on_assign = self.on_revoke, self.on_assign
        revoked: list[TopicPartition] = []

        def remember(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            revoked.extend(partitions)

        def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if partitions and revoked:
                on_revoke(consumer, revoked)
                revoked.clear()
            on_assign(consumer, partitions)

        self.on_revoke, self.on_assign = remember, assigned

    return together


SEAMS: dict[Switch, Callable[[], Seam]] = {
    Switch.FILES_AT_REVOKE: lambda: Seam(Lane, "end_for_revoke", drop_what_is_in_no_file),
    Switch.LETS_GO_FIRST: lambda: Seam(OneLane, "close", leave_it_open),
    Switch.HELD_UNTIL_READY: lambda: Seam(Membership, "hold_back", hold_nothing_back),
    Switch.FILED_OWNERSHIP: lambda: Seam(Checkpoint, "_require_ownership", believe),
    Switch.REVOKE_BY_ITSELF: lambda: Seam(Membership, "__init__", _with_the_assignment()),
    Switch.UPLOAD_DEADLINE: lambda: Seam(FileSinkWriter, "finish", _without_end()),
    Switch.BEGINS_AT_COMMITTED: lambda: Seam(Membership, "__init__", _where_it_was_read()),
}
