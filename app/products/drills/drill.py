"""A drill: a failure that is rehearsed on a running pipeline, and watched until it is known what came of it.

ORDERED ─▶ UNDERWAY ─▶ RECOVERING ─▶ AUDITING ─▶ ENDED
   │           │            │                      ▲
   └───────────┴────────────┴──────────────────────┘ not begun by anybody, or stopped

ORDERED: whom it is for has not claimed it yet. UNDERWAY: processes are frozen or killed, or the server is away.
RECOVERING: that is over, and the pipeline does not flow as before yet. AUDITING: the ids of the time are counted.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from app.core.audit_figures import AuditFigures
from app.core.wire.drill import Act
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
"""What is seen in these is of this drill, or of nobody's: so only one at a time is in any of them."""


class DrillVerdict(StrEnum):
    """SURVIVED takes an audit that found nothing. NOT_BEGUN: nothing was done to anybody."""

    SURVIVED = "survived"
    NOT_SURVIVED = "not_survived"
    NOT_AUDITED = "not_audited"
    STOPPED = "stopped"
    NOT_BEGUN = "not_begun"


class TargetState(StrEnum):
    """
    ORDERED ─▶ CLAIMED ─▶ FROZEN ─▶ THAWED   of a freeze; a watchdog that reaches no server leaves out FROZEN
       └────────────────▶ KILLED ─▶ REFUSED  of a kill: granted; and the attempt was heard after it, so it lives
       ORDERED, CLAIMED ─▶ REFUSED           the host would not do it, or the drill ended before it began
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
"""An order that nobody has claimed by then is void: a heartbeat brings it within a second."""
THAWED_WITHIN = timedelta(seconds=5)
"""A watchdog that has not told its end so long after its time could not reach us; the process goes on all the same."""
LIVES_ON_AFTER = timedelta(seconds=8)
"""An attempt that was granted to kill itself, and is still heard so long after, has not done it: the grant got lost."""
KEPT_FOR = timedelta(days=90)
SHORTEST_S, LONGEST_S = 1.0, 120.0
DEFAULT_S = 15.0


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One process that is meant, and no other: an attempt of a task, or with `task` None a server."""

    host: str
    pid: int
    task: int | None = None
    attempt: int | None = None
    state: TargetState = TargetState.ORDERED
    since: datetime
    message: str = ""

    @property
    def name(self) -> str:
        return "the server" if self.task is None else f"task {self.task}"

    @property
    def is_acted_on(self) -> bool:
        """Whether it was, or is, or may be frozen or killed."""
        return self.state in (TargetState.CLAIMED, TargetState.FROZEN, TargetState.THAWED, TargetState.KILLED)

    def moved(self, to: TargetState, *, now: datetime, message: str = "") -> Target:
        """Raises IllegalTransitionError."""
        if to not in TARGET_TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"{self.name} of a drill cannot go from {self.state} to {to}")
        return replace(self, state=to, since=now, message=message)


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """What should happen, and why so soon. within_s: after the beginning; None: nothing that we know bounds it."""

    sentence: str
    within_s: float | None = None
    because: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What will be done and what should come of it, made when it was ordered.

    stands_still_s: at most so long no record of a partition should be committed; None: nothing that we know bounds it.
    tasks: how many run when all is well. commits_every_s: the definition's commit interval; none flows more often.
    """

    for_s: float
    group: str
    cluster: str
    tasks: int
    stands_still_s: float | None
    expected: tuple[Expectation, ...]
    commits_every_s: float = 0.0


class Drill(msgspec.Struct, frozen=True, kw_only=True):
    """One drill of a pipeline. `ordinal` and `lease` are None where the server is meant.

    begun_at: the first claim. act_over_at: nobody is frozen any more. recovered_at: the pipeline flows as before.
    no_audit: why there is none.
    """

    id: str
    pipeline: str
    run_id: str
    kind: DrillKind
    ordinal: int | None
    lease: int | None
    plan: Plan
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
    def act(self) -> Act:
        return Act.KILL if self.kind is DrillKind.KILL_INSTANCE else Act.FREEZE

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    def may_begin(self, now: datetime) -> bool:
        """Whether a process that is meant may still claim it."""
        return (
            self.state in (DrillState.ORDERED, DrillState.UNDERWAY)
            and self.stop_requested_at is None
            and now <= self.begin_by
        )

    def target_of(self, task: int | None, attempt: int | None) -> Target | None:
        """That very attempt, if it is meant; a later one never is."""
        return next((one for one in self.targets if (one.task, one.attempt) == (task, attempt)), None)

    def moved(self, to: DrillState, **changes: object) -> Drill:
        """Raises IllegalTransitionError."""
        if to not in TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"a drill cannot go from {self.state} to {to}")
        return replace(self, state=to, **changes)

    def with_target(self, target: Target) -> Drill:
        same = (target.task, target.attempt)
        return replace(self, targets=tuple(target if (one.task, one.attempt) == same else one for one in self.targets))
