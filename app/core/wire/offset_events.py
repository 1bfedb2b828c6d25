"""The events of one partition in one attempt of a task, in their order.

    Assigned ─▶ Positioned ─▶ Checkpoint* ─▶ GivenUp ─▶ Assigned …
                    ▲   rewind    │
                    └─────────────┘

`index` counts the events of one attempt and partition from 0, with those that were dropped before they could be sent.
So a missing number is a gap, and no clock is needed to detect it. `number` is the ownership number of the task
(workers/loop/group/ownership.py). Every assignment and every loss raises it, so two events with one number have no
rebalance of the partition between them. `follows` is the final number of checkpoints in the event before it. That event
may have been repeated with more of them and not have arrived. None: it is the first, or unknown.
`at_ms` is the time of its recording, by the clock of its host: it is shown, and never compared.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec


class Teller(NamedTuple):
    """One attempt of one task. `run` counts the pipeline's starts; for one task, leases and then attempts only grow."""

    run: int
    ordinal: int
    task: int
    lease: int
    attempt: int


class PartitionLeaving(StrEnum):
    REVOKED = "revoked"
    LOST = "lost"


class StartReason(StrEnum):
    """The reason for the position at which reading continues.

    COMMITTED: the group had committed this offset, as its coordinator reports.
    NOTHING_COMMITTED: it had committed nothing; the pipeline's start position applied.
    GONE_UNREAD: its committed offset is not in the log any more, after retention or a deletion of records.
    """

    COMMITTED = "committed"
    NOTHING_COMMITTED = "nothing_committed"
    GONE_UNREAD = "gone_unread"


class CheckpointOutcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Assigned(msgspec.Struct, frozen=True, kw_only=True, tag="assigned"):
    """The partition belongs to the task from here on.

    generation: of the classic group, or the member's epoch; None if the client did not report it.
    """

    index: int
    number: int
    follows: int | None = None
    generation: int | None = None
    at_ms: int | None = None


class GivenUp(msgspec.Struct, frozen=True, kw_only=True, tag="given_up"):
    """The partition does not belong to the task any more. `number` is the one to which this raised it."""

    index: int
    number: int
    follows: int | None = None
    how: PartitionLeaving
    at_ms: int | None = None


class Positioned(msgspec.Struct, frozen=True, kw_only=True, tag="positioned"):
    """Reading begins, or begins again after an abort, at `offset`. For a partition of another task: it begins there for
    that task, as one task resolves `latest` for all.

    gone_from: with GONE_UNREAD, the committed offset; the offsets from there to `offset` are deleted.
    """

    index: int
    number: int
    follows: int | None = None
    offset: int
    found: StartReason = StartReason.COMMITTED
    gone_from: int | None = None
    at_ms: int | None = None


class RecordedCheckpoint(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint"):
    """The partition's share of one checkpoint, or of several consecutive committed ones without a gap.

    begins: the client's position before the first poll with records in it; None if it had not read yet. The outcome of
        the poll before is irrelevant. It is compared with the end of the checkpoint before, and so not taken from it.
    first, last: offsets of its records. None if it only passes markers and aborted records, or if the loop could not
        separate its records cheaply from those of other partitions.
    records: the number of its records; None likewise.
    next: the offset that was, or would have been, committed.
    number: the ownership number of its first record's poll.
    at_ms, until_ms: the end of the first and, if there are several, of the last of them.
    """

    index: int
    number: int
    follows: int | None = None
    begins: int | None
    first: int | None
    last: int | None
    next: int
    records: int | None
    outcome: CheckpointOutcome
    checkpoints: int = 1
    at_ms: int | None = None
    until_ms: int | None = None


Event = Assigned | GivenUp | Positioned | RecordedCheckpoint


def checkpoints_of(event: Event) -> int:
    """Return its number of checkpoints; 1 for an event that cannot grow."""
    return event.checkpoints if isinstance(event, RecordedCheckpoint) else 1


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """The received events of one attempt about one partition.

    events: in any order; one that was delivered twice may occur twice.
    recorded: the number of events that it recorded, dropped ones included.
    is_final: no event behind `recorded` is missing that came before the events of the others. The attempt has reported
        its end, or has reported since the last event of the others arrived. False if it died.
    life: attempts of one life read and committed the same offsets of one group. Another one begins where the offsets
        were reset, moved by a run without an offset log (at_least_once), or are another cluster's: between two runs.
    """

    teller: Teller
    events: tuple[Event, ...]
    recorded: int
    is_final: bool
    life: int = 0
