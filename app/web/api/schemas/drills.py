"""Drills at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.drills.drill import DEFAULT_S, LONGEST_S, SHORTEST_S, DrillKind, DrillState, DrillVerdict, TargetState
from app.domain.drills.timeline import EntryKind
from app.web.api.schemas.base import Answer, Body
from app.web.api.schemas.words import Why


class DrillGiven(Body):
    """ordinal: of the instance; null where the server is meant. for_s: how long a freeze lasts."""

    kind: Annotated[DrillKind, Field(strict=False)]
    ordinal: Annotated[int | None, Field(ge=0, lt=2**31)] = None
    for_s: Annotated[float, Field(ge=SHORTEST_S, le=LONGEST_S)] = DEFAULT_S
    why: Why = None


class Expectation(Answer):
    """within_s: seconds after the beginning; null: nothing that we know bounds it."""

    sentence: str
    within_s: float | None
    because: str


class Plan(Answer):
    """What is done and expected, made when it was ordered. stands_still_s: of any partition's records, at most."""

    for_s: float
    group: str
    cluster: str
    tasks: int
    stands_still_s: float | None
    expected: list[Expectation]
    commits_every_s: float


class Target(Answer):
    """One process that is meant: an attempt of a task, or with `task` null a server."""

    host: str
    pid: int
    task: int | None
    attempt: int | None
    state: TargetState
    since: datetime
    message: str


class Entry(Answer):
    """fencing_id: of the fencing event that it tells of."""

    at: datetime
    kind: EntryKind
    sentence: str
    fencing_id: str | None


class PartitionWatched(Answer):
    """longest_s: between two commits of its offset that were seen. flowed: whether it is measured."""

    committed: int
    since: datetime
    flowed: bool
    longest_s: float


class Watched(Answer):
    """at: of the last look; null: nobody has looked yet, so that nothing here is known.

    rebalances: null while nobody has told the group's generation. committed: null while nobody has looked.
    unseen_s: for how long nobody looked; committed_unseen: records that were committed meanwhile.
    """

    at: datetime | None
    rebalances: int | None
    generation: int | None
    partitions: dict[str, PartitionWatched]
    unseen_s: float
    committed_unseen: int
    committed: int | None


class AuditFigures(Answer):
    """Counted in ids; `read` and `expected` in records. unexpected: outputs without an input. dangling: references to
    files that are missing or other ones.
    """

    audit_id: str
    read: int
    expected: int
    lost: int
    duplicated: int
    unexpected: int
    dangling: int
    incomplete: str


class Drill(Answer):
    """One drill. `verdict` and `sentence` come with its end."""

    id: str
    pipeline: str
    run_id: str
    kind: DrillKind
    ordinal: int | None
    lease: int | None
    plan: Plan
    state: DrillState
    targets: list[Target]
    ordered_at: datetime
    ordered_by: str
    why: str | None
    entries: list[Entry]
    watched: Watched
    stop_requested_at: datetime | None
    stop_requested_by: str | None
    begun_at: datetime | None
    act_over_at: datetime | None
    recovered_at: datetime | None
    audit_id: str | None
    audit: AuditFigures | None
    no_audit: str
    ended_at: datetime | None
    verdict: DrillVerdict | None
    sentence: str


class DrillPage(Answer):
    items: list[Drill]
    next_cursor: str | None
