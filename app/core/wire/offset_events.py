"""What one attempt of a task records of one partition, in the order in which it happened there.

    Assigned ─▶ Positioned ─▶ Checkpoint* ─▶ GivenUp ─▶ Assigned …
                    ▲  went back  │
                    └─────────────┘

`index` counts the events of one attempt about one partition from 0, those that were dropped before they could be sent
included: a missing number is a hole, and no clock is needed to see it. `number` is the ownership number of the task
(workers/loop/group/ownership.py): every assignment and every loss raises it, so that two events with one
number have no rebalance of the partition between them. `follows` is how many checkpoints the event before it stands for
in the end: that one may have been told again, grown, and not have arrived so. None: it is the first, or not said.
`at_ms` is when it was recorded, by the clock of its host: it is shown, and never compared.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec


class Teller(NamedTuple):
    """One attempt of one task. `run` counts the pipeline's starts; of one task, leases and then attempts only grow."""

    run: int
    ordinal: int
    task: int
    lease: int
    attempt: int


class Leaving(StrEnum):
    REVOKED = "revoked"
    LOST = "lost"


class Found(StrEnum):
    """Why reading goes on where it does.

    COMMITTED: the group had committed this offset, as its coordinator says.
    NOTHING_COMMITTED: it had committed nothing; the pipeline's start position said where.
    GONE_UNREAD: what it had committed is not in the log any more, whose records retention or somebody has deleted.
    """

    COMMITTED = "committed"
    NOTHING_COMMITTED = "nothing_committed"
    GONE_UNREAD = "gone_unread"


class Outcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Assigned(msgspec.Struct, frozen=True, kw_only=True, tag="assigned"):
    """The partition is the task's from here on.

    generation: of the classic group, or the member's epoch; None where the client did not say it.
    """

    index: int
    number: int
    follows: int | None = None
    generation: int | None = None
    at_ms: int | None = None


class GivenUp(msgspec.Struct, frozen=True, kw_only=True, tag="given_up"):
    """It is not any more. `number` is the one that this raised it to."""

    index: int
    number: int
    follows: int | None = None
    how: Leaving
    at_ms: int | None = None


class Positioned(msgspec.Struct, frozen=True, kw_only=True, tag="positioned"):
    """Reading begins, or begins again after what was not committed, at `offset`. Of a partition that is not the task's:
    it begins there for others, as one task resolves `latest` for all.

    gone_from: with GONE_UNREAD, what had been committed; the offsets from there to `offset` are gone.
    """

    index: int
    number: int
    follows: int | None = None
    offset: int
    found: Found = Found.COMMITTED
    gone_from: int | None = None
    at_ms: int | None = None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint"):
    """The partition's share of one checkpoint, or of several committed ones that follow on each other without a seam.

    begins: the client's position before the first poll whose records are in it, whatever became of the poll before;
        None where it had not read yet. Not the end of the checkpoint before, which is what it is compared with.
    first, last: offsets of the records in it; None if it holds none and only passes markers and aborted records, or if
        telling them apart from those of other partitions would have cost the loop too much.
    records: how many it holds; None likewise.
    next: the offset that was, or would have been, committed.
    number: under which the first of its records was polled.
    at_ms, until_ms: when the first and, if there are several, the last of them ended.
    """

    index: int
    number: int
    follows: int | None = None
    begins: int | None
    first: int | None
    last: int | None
    next: int
    records: int | None
    outcome: Outcome
    checkpoints: int = 1
    at_ms: int | None = None
    until_ms: int | None = None


Event = Assigned | GivenUp | Positioned | Checkpoint


def checkpoints_of(event: Event) -> int:
    """How many checkpoints it stands for; 1 of an event that cannot grow."""
    return event.checkpoints if isinstance(event, Checkpoint) else 1


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """What has been heard from one attempt about one partition.

    events: in any order; one that was delivered twice may stand here twice.
    recorded: how many events it says that it recorded, dropped ones included.
    is_final: nothing is missing behind `recorded` that came before the events of the others: the attempt is over and
        has said so, or it has reported since the last of theirs arrived. Not so if it died.
    life: attempts of one life read and committed the same offsets of one group. Another one begins where these were
        set by hand, moved by a run that records nothing (at_least_once), or are another cluster's: between two runs.
    """

    teller: Teller
    events: tuple[Event, ...]
    recorded: int
    is_final: bool
    life: int = 0
