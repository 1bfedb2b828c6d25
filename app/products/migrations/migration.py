"""A migration with its stages and steps:

    PREFLIGHT ─▶ FIRST_BOUNCE ─▶ SECOND_BOUNCE ─▶ VERIFY ─▶ (done)
        │             │               │             │ ▲
        └─(goal: back)┴───────┬───────┴─────────────┘ │
                              ▼                       │
                     BACK_TO_GENERATION ─────────────▶│
                              │                       │
                              └▶ BACK_TO_GROUP_ONLY ──┘

A stage ends only through its gate (gates.py), and a gate opens only on evidence. The state shows who may continue:

    ACTIVE ⇄ PAUSED (by a user);  ACTIVE ─▶ STOPPED (evidence is missing, or an alert) ─▶ ACTIVE (retried)
    ACTIVE ─▶ DONE;  ACTIVE, PAUSED, STOPPED ─▶ ABORTED: instances keep their modes, and a new migration may continue
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from app.core.runs.mode import Mode
from app.kit.errors import IllegalTransitionError
from app.products.migrations.judged import Judged
from app.products.migrations.look import GroupNow, Held, Incarnation


class Stage(StrEnum):
    PREFLIGHT = "preflight"
    FIRST_BOUNCE = "first_bounce"
    SECOND_BOUNCE = "second_bounce"
    BACK_TO_GENERATION = "back_to_generation"
    BACK_TO_GROUP_ONLY = "back_to_group_only"
    VERIFY = "verify"

    @property
    def words(self) -> str:
        return self.replace("_", " ")


class MigrationState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    STOPPED = "stopped"
    DONE = "done"
    ABORTED = "aborted"


class MigrationStepKind(StrEnum):
    """BOUNCE: an instance restarts in the stage's mode. FENCE: Fenceline initialises ids, and no producer follows."""

    BOUNCE = "bounce"
    FENCE = "fence"


class StepState(StrEnum):
    """
    UNDERWAY ─▶ DONE, or LATE (⇄ UNDERWAY, when it is retried); DROPPED: the migration was rolled back meanwhile.
    """

    UNDERWAY = "underway"
    DONE = "done"
    LATE = "late"
    DROPPED = "dropped"


_G, _M, _P = Stage, MigrationState, StepState
NEXT_STAGES: dict[Stage, frozenset[Stage]] = {
    _G.PREFLIGHT: frozenset({_G.FIRST_BOUNCE, _G.BACK_TO_GENERATION}),
    _G.FIRST_BOUNCE: frozenset({_G.SECOND_BOUNCE, _G.BACK_TO_GENERATION}),
    _G.SECOND_BOUNCE: frozenset({_G.VERIFY, _G.BACK_TO_GENERATION}),
    _G.VERIFY: frozenset({_G.BACK_TO_GENERATION}),
    _G.BACK_TO_GENERATION: frozenset({_G.BACK_TO_GROUP_ONLY, _G.VERIFY}),
    _G.BACK_TO_GROUP_ONLY: frozenset({_G.VERIFY}),
}
TRANSITIONS: dict[MigrationState, frozenset[MigrationState]] = {
    _M.ACTIVE: frozenset({_M.PAUSED, _M.STOPPED, _M.DONE, _M.ABORTED}),
    _M.PAUSED: frozenset({_M.ACTIVE, _M.STOPPED, _M.ABORTED}),
    _M.STOPPED: frozenset({_M.ACTIVE, _M.PAUSED, _M.ABORTED}),
    _M.DONE: frozenset(),
    _M.ABORTED: frozenset(),
}
STEP_TRANSITIONS: dict[StepState, frozenset[StepState]] = {
    _P.UNDERWAY: frozenset({_P.DONE, _P.LATE, _P.DROPPED}),
    _P.LATE: frozenset({_P.UNDERWAY, _P.DROPPED}),
    _P.DONE: frozenset(),
    _P.DROPPED: frozenset(),
}
ENDED = frozenset({_M.DONE, _M.ABORTED})
SHUTS_OUT: dict[Stage, Mode] = {_G.FIRST_BOUNCE: Mode.GROUP_ONLY, _G.BACK_TO_GENERATION: Mode.V2}
"""The mode that no producer may commit in after the gate of the stage has opened."""


UNWATCHED = timedelta(seconds=90)
"""Checks come every second, or later after fences that brokers do not answer. A longer gap without checks means that no
server was driving, and does not count as waiting."""


class MigrationStep(msgspec.Struct, frozen=True, kw_only=True):
    """One restart or fence within a stage, recorded before it is done.

    ordinal, lease: of a BOUNCE, the instance and the lease that it replaces. to: its new mode.
    ids: of a FENCE, the ids to initialise. missing: of a LATE one, what it waited for.
    """

    number: int
    stage: Stage
    kind: MigrationStepKind
    state: StepState = StepState.UNDERWAY
    began_at: datetime
    ended_at: datetime | None = None
    ordinal: int | None = None
    lease: int | None = None
    to: Mode | None = None
    ids: tuple[str, ...] = ()
    by: str | None = None
    missing: str = ""

    def moved(self, state: StepState, **changes: object) -> MigrationStep:
        """Return it in this state. Raises IllegalTransitionError."""
        if state not in STEP_TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"step {self.number} cannot go from {self.state} to {state}")
        return replace(self, state=state, **changes)

    @property
    def words(self) -> str:
        if self.kind is MigrationStepKind.BOUNCE:
            return f"bounce instance {self.ordinal} to {self.to}"
        return f"fence {self.ids[0]}" if len(self.ids) == 1 else f"fence {len(self.ids)} ids"


class FencedId(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to Fenceline's own fence of an id, which fences all older producers."""

    incarnation: Incarnation
    at: datetime
    step: int


class GroupSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The group, equal in all checks since `since`; `at` is the newest check."""

    group: GroupNow
    since: datetime
    at: datetime

    def after(self, group: GroupNow, *, at: datetime) -> GroupSeen:
        """Add one check."""
        same = self.group.is_as(group)
        return GroupSeen(group=group, since=self.since if same else at, at=at)


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One migration of one run. `goal` is the mode that it ends in; a rollback changes only the goal.

    revisions: the pipeline's revision of each mode that it needs. missing: of a STOPPED one, what it waits for.
    waived: conditions that a user has waived, with the reason.
    offsets: the group's committed offsets before it began, by partition, for comparison.
    audit_id: of the audit of its time. group_seen: the group over the newest checks.
    shut_out: when the last producer of a mode was proven unable to commit; the mode two steps away requires it.
    archived: the ids of the partitions when they were retired, by partition.
    gate: the conditions of the gate, as the newest check found them.
    ends_seen: for blocked partitions of the sink in the last stage, the end of the log when first found.
    looked_at, watched_since: the newest check, and the start of the uninterrupted checks.
    """

    id: str
    pipeline: str
    run_id: str
    cluster: str
    group: str
    goal: Mode
    stage: Stage = Stage.PREFLIGHT
    state: MigrationState = MigrationState.ACTIVE
    stage_since: datetime
    state_since: datetime
    started_at: datetime
    started_by: str
    why: str | None = None
    revisions: dict[Mode, int] = {}
    steps: tuple[MigrationStep, ...] = ()
    held: tuple[Held, ...] = ()
    fenced: tuple[FencedId, ...] = ()
    waived: dict[str, str] = {}
    offsets: dict[str, int] = {}
    missing: str = ""
    audit_id: str | None = None
    ended_at: datetime | None = None
    group_seen: GroupSeen | None = None
    shut_out: dict[Mode, datetime] = {}
    archived: dict[str, str] = {}
    gate: tuple[Judged, ...] = ()
    ends_seen: dict[str, int] = {}
    looked_at: datetime | None = None
    watched_since: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.state not in ENDED

    @property
    def step(self) -> MigrationStep | None:
        """The step that is underway or late; there is at most one."""
        return next((one for one in self.steps if one.state in (StepState.UNDERWAY, StepState.LATE)), None)

    @property
    def last_step_at(self) -> datetime:
        """The end of the newest step, since which the migration only waits for the stage's gate."""
        ended = [one.ended_at for one in self.steps if one.ended_at is not None and one.stage is self.stage]
        return max([self.stage_since, self.state_since, *ended])

    def waits_since(self, began_at: datetime) -> datetime:
        """Return the start of the wait for something begun then, without the time in which no server checked."""
        return began_at if self.watched_since is None else max(began_at, self.watched_since)

    def looked(self, at: datetime) -> Migration:
        """Add one check."""
        goes_on = self.looked_at is not None and at - self.looked_at <= UNWATCHED
        return replace(self, looked_at=at, watched_since=self.watched_since if goes_on else at)

    def fence_of(self, transactional_id: str) -> FencedId | None:
        """Return Fenceline's newest fence of the id. Two servers may have fenced in one step; the later one counts."""
        found = [one for one in self.fenced if one.incarnation.transactional_id == transactional_id]
        return max(found, key=lambda one: (one.step, one.at), default=None)

    def gave_up(self, transactional_id: str) -> FencedId | None:
        """Return Fenceline's newest fence of the id, if its stage retired the id; a user's request does not."""
        for_good = {one.number for one in self.steps if one.kind is MigrationStepKind.FENCE and one.by is None}
        fence = self.fence_of(transactional_id)
        return fence if fence is not None and fence.step in for_good else None

    def held_by(self, ordinal: int, lease: int) -> Held | None:
        return next((one for one in self.held if (one.ordinal, one.lease) == (ordinal, lease)), None)

    def in_state(self, state: MigrationState, *, now: datetime, missing: str = "") -> Migration:
        """Return it in this state. Raises IllegalTransitionError."""
        if state not in TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"a migration cannot go from {self.state} to {state}")
        ended_at = now if state in ENDED else None
        return replace(self, state=state, state_since=now, missing=missing, ended_at=ended_at)

    def in_stage(self, stage: Stage, *, now: datetime) -> Migration:
        """Return it in this stage. Raises IllegalTransitionError."""
        if stage not in NEXT_STAGES[self.stage]:
            raise IllegalTransitionError(f"a migration cannot go from {self.stage} to {stage}")
        return replace(self, stage=stage, stage_since=now, ends_seen={})

    def next_step(self, kind: MigrationStepKind, *, began_at: datetime, **fields: Any) -> MigrationStep:
        """Make a step of this stage with the next number."""
        number = max((one.number for one in self.steps), default=0) + 1
        return MigrationStep(number=number, stage=self.stage, kind=kind, began_at=began_at, **fields)

    def with_step(self, step: MigrationStep) -> Migration:
        """Replace the step of this number, or add it."""
        others = tuple(one for one in self.steps if one.number != step.number)
        return replace(self, steps=tuple(sorted((*others, step), key=lambda one: one.number)))
