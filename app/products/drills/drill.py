"""A drill: a deliberate failure of a running pipeline, observed until its verdict.

ORDERED ─▶ UNDERWAY ─▶ RECOVERING ─▶ AUDITING ─▶ ENDED
   │           │            │                      ▲
   └───────────┴────────────┴──────────────────────┘ not begun, or stopped

ORDERED: no target has claimed it yet. UNDERWAY: processes are frozen or killed, or the server is frozen.
RECOVERING: the action is over, and the pipeline has not recovered yet. AUDITING: an audit counts the ids.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from app.core.audit_figures import AuditFigures
from app.core.wire.drill import DrillAct
from app.kit.errors import IllegalTransitionError
from app.products.drills.timeline import Entry, Watched


class DrillKind(StrEnum):
    FREEZE_INSTANCE = "freeze_instance"
    KILL_INSTANCE = "kill_instance"
    FREEZE_SERVER = "freeze_server"


class DrillState(StrEnum):
    ORDERED = "ordered"
    UNDERWAY = "underway"
    RECOVERING = "recovering"
    AUDITING = "auditing"
    ENDED = "ended"


DISTURBS = frozenset({DrillState.ORDERED, DrillState.UNDERWAY, DrillState.RECOVERING})
"""States in which a drill affects pipelines. Only one drill at a time is in any of them, so effects are its own."""


class DrillVerdict(StrEnum):
    """SURVIVED requires a clean audit, or of a query without a plan consistent records of its batches.

    NOT_BEGUN: no process was frozen or killed.
    """

    SURVIVED = "survived"
    NOT_SURVIVED = "not_survived"
    NOT_AUDITED = "not_audited"
    STOPPED = "stopped"
    NOT_BEGUN = "not_begun"


class TargetState(StrEnum):
    """
    ORDERED ─▶ CLAIMED ─▶ FROZEN ─▶ THAWED   of a freeze; a watchdog without a server omits FROZEN
       └────────────────▶ KILLED ─▶ REFUSED  of a kill: granted, then a heartbeat shows that the attempt is alive
       ORDERED, CLAIMED ─▶ REFUSED           the host refused, or the drill ended before it began
    """

    ORDERED = "ordered"
    CLAIMED = "claimed"
    FROZEN = "frozen"
    THAWED = "thawed"
    KILLED = "killed"
    REFUSED = "refused"


_S, _T = DrillState, TargetState
TRANSITIONS: dict[DrillState, frozenset[DrillState]] = {
    _S.ORDERED: frozenset({_S.UNDERWAY, _S.ENDED}),
    _S.UNDERWAY: frozenset({_S.RECOVERING, _S.ENDED}),
    _S.RECOVERING: frozenset({_S.AUDITING, _S.ENDED}),
    _S.AUDITING: frozenset({_S.ENDED}),
    _S.ENDED: frozenset(),
}
TARGET_TRANSITIONS: dict[TargetState, frozenset[TargetState]] = {
    _T.ORDERED: frozenset({_T.CLAIMED, _T.KILLED, _T.REFUSED}),
    _T.CLAIMED: frozenset({_T.FROZEN, _T.THAWED, _T.REFUSED}),
    _T.FROZEN: frozenset({_T.THAWED}),
    _T.THAWED: frozenset(),
    _T.KILLED: frozenset({_T.REFUSED}),
    _T.REFUSED: frozenset(),
}

BEGIN_WITHIN = timedelta(seconds=15)
"""Time after which an unclaimed order expires. A heartbeat delivers it within a second."""
THAWED_WITHIN = timedelta(seconds=5)
"""Time for a watchdog's report of the thaw. Without a report the server was unreachable, and the process continues."""
LIVES_ON_AFTER = timedelta(seconds=8)
"""Time after a granted kill. An attempt with later heartbeats did not receive the grant, and is alive."""
KEPT_FOR = timedelta(days=90)
SHORTEST_S, LONGEST_S = 1.0, 120.0
DEFAULT_S = 15.0


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One target: the process of an attempt of a task, the driver of a query, or with `task` None a server.

    is_driver: `pid` is its Python process, `jvm_pid` its JVM; task and attempt are those of the first writer.
    """

    host: str
    pid: int
    task: int | None = None
    attempt: int | None = None
    state: TargetState = TargetState.ORDERED
    since: datetime
    message: str = ""
    is_driver: bool = False
    jvm_pid: int | None = None

    @property
    def name(self) -> str:
        if self.is_driver:
            return "the driver"
        return "the server" if self.task is None else f"task {self.task}"

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.pid,) if self.jvm_pid is None else (self.jvm_pid, self.pid)

    @property
    def is_acted_on(self) -> bool:
        """True if it was, is, or may be frozen or killed."""
        return self.state in (TargetState.CLAIMED, TargetState.FROZEN, TargetState.THAWED, TargetState.KILLED)

    def moved(self, to: TargetState, *, now: datetime, message: str = "") -> Target:
        """Return the target in state `to`. Raises IllegalTransitionError."""
        if to not in TARGET_TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"{self.name} of a drill cannot go from {self.state} to {to}")
        return replace(self, state=to, since=now, message=message)


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """An expected event. within_s: seconds after the start of the action; None without a known bound."""

    sentence: str
    within_s: float | None = None
    because: str = ""


class DrillPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a drill with its expectations, made at its order.

    stands_still_s: longest expected recovery time of a partition; None without a known bound.
    tasks: number of tasks that run without failure. commits_every_s: the definition's commit interval, or the trigger
    interval of a query.
    topics: those whose committed offsets are measured; empty: all of the group.
    replaced_after_s: time frozen after which the server starts a second driver of a query; None: never.
    marker_topic: of a query, whose group has the markers of its writers there; None for other pipelines.
    """

    for_s: float
    group: str
    cluster: str
    tasks: int
    stands_still_s: float | None
    expected: tuple[Expectation, ...]
    commits_every_s: float = 0.0
    topics: tuple[str, ...] = ()
    replaced_after_s: float | None = None
    marker_topic: str | None = None


class Drill(msgspec.Struct, frozen=True, kw_only=True):
    """One drill of a pipeline. `ordinal` and `lease` are None for a server.

    begun_at: the first claim. act_over_at: the last thaw. recovered_at: the recovery of the pipeline.
    no_audit: the reason why it has no audit.
    """

    id: str
    pipeline: str
    run_id: str
    kind: DrillKind
    ordinal: int | None
    lease: int | None
    plan: DrillPlan
    state: DrillState
    targets: tuple[Target, ...]
    ordered_at: datetime
    ordered_by: str
    why: str | None
    entries: tuple[Entry, ...] = ()
    watched: Watched = Watched()
    stop_requested_at: datetime | None = None
    stop_requested_by: str | None = None
    begun_at: datetime | None = None
    act_over_at: datetime | None = None
    well_since: datetime | None = None
    recovered_at: datetime | None = None
    audit_id: str | None = None
    audit: AuditFigures | None = None
    no_audit: str = ""
    ended_at: datetime | None = None
    verdict: DrillVerdict | None = None
    sentence: str = ""

    @property
    def begin_by(self) -> datetime:
        return self.ordered_at + BEGIN_WITHIN

    @property
    def act(self) -> DrillAct:
        return DrillAct.KILL if self.kind is DrillKind.KILL_INSTANCE else DrillAct.FREEZE

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    @property
    def is_of_driver(self) -> bool:
        return any(one.is_driver for one in self.targets)

    @property
    def is_of_query(self) -> bool:
        return self.plan.marker_topic is not None

    def is_replacement_due(self, now: datetime) -> bool:
        """Return true if its driver is frozen for so long that a second one is to take over."""
        after_s = self.plan.replaced_after_s
        return (
            after_s is not None
            and self.stop_requested_at is None
            and any(
                one.is_driver
                and one.state in (TargetState.CLAIMED, TargetState.FROZEN)
                and now - one.since >= timedelta(seconds=after_s)
                for one in self.targets
            )
        )

    def may_begin(self, now: datetime) -> bool:
        """Return true if a target may still claim it."""
        return (
            self.state in (DrillState.ORDERED, DrillState.UNDERWAY)
            and self.stop_requested_at is None
            and now <= self.begin_by
        )

    def target_of(self, task: int | None, attempt: int | None) -> Target | None:
        """Return the target of exactly this attempt; a later attempt is no target."""
        return next((one for one in self.targets if (one.task, one.attempt) == (task, attempt)), None)

    def moved(self, to: DrillState, **changes: object) -> Drill:
        """Return the drill in state `to`. Raises IllegalTransitionError."""
        if to not in TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"a drill cannot go from {self.state} to {to}")
        return replace(self, state=to, **changes)

    def with_target(self, target: Target) -> Drill:
        same = (target.task, target.attempt)
        return replace(self, targets=tuple(target if (one.task, one.attempt) == same else one for one in self.targets))
