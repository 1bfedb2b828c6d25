"""A migration: its stages, its steps, and what is written down of them.

    PREFLIGHT ─▶ FIRST_BOUNCE ─▶ SECOND_BOUNCE ─▶ VERIFY ─▶ (done)
        │             │               │             │ ▲
        └─(goal: back)┴───────┬───────┴─────────────┘ │
                              ▼                       │
                     BACK_TO_GENERATION ─────────────▶│
                              │                       │
                              └▶ BACK_TO_GROUP_ONLY ──┘

Each stage is left only through its gate (gates.py), and each gate opens only on evidence. The state says who drives:

    ACTIVE ⇄ PAUSED (by somebody);  ACTIVE ─▶ STOPPED (evidence is missing, or an alarm) ─▶ ACTIVE (retried)
    ACTIVE ─▶ DONE;  ACTIVE, PAUSED, STOPPED ─▶ ABORTED: everything stays as it is, and a new migration may go on
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


class StepKind(StrEnum):
    """BOUNCE: an instance begins anew in the stage's mode. FENCE: ids are initialised by us, and left so."""

    BOUNCE = "bounce"
    FENCE = "fence"


class StepState(StrEnum):
    """
    UNDERWAY ─▶ DONE, or LATE (⇄ UNDERWAY, when it is retried); DROPPED: the migration went another way meanwhile.
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
"""The mode that nobody commits in any more when the gate of the stage is open."""


UNWATCHED = timedelta(seconds=90)
"""Looks come every second, or after fences that brokers do not answer; when none has come for so long, no server was
there to see what was waited for."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One act within a stage, written down before it is done.

    ordinal, lease: of a BOUNCE, the instance and the lease that it replaces. to: the mode that it is moved to.
    ids: of a FENCE, those that are to be initialised. missing: of a LATE one, what it waited for.
    """

    number: int
    stage: Stage
    kind: StepKind
    state: StepState = StepState.UNDERWAY
    began_at: datetime
    ended_at: datetime | None = None
    ordinal: int | None = None
    lease: int | None = None
    to: Mode | None = None
    ids: tuple[str, ...] = ()
    by: str | None = None
    missing: str = ""

    def moved(self, state: StepState, **changes: object) -> Step:
        """Raises IllegalTransitionError."""
        if state not in STEP_TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"step {self.number} cannot go from {self.state} to {state}")
        return replace(self, state=state, **changes)

    @property
    def words(self) -> str:
        if self.kind is StepKind.BOUNCE:
            return f"bounce instance {self.ordinal} to {self.to}"
        return f"fence {self.ids[0]}" if len(self.ids) == 1 else f"fence {len(self.ids)} ids"


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """What our own fence of an id was answered: whoever was before it is refused from then on."""

    incarnation: Incarnation
    at: datetime
    step: int


class GroupSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The group as the looks since `since` have found it, each the same as the one before; `at` is the last of them."""

    group: GroupNow
    since: datetime
    at: datetime

    def after(self, group: GroupNow, *, at: datetime) -> GroupSeen:
        """With one more look."""
        same = self.group.is_as(group)
        return GroupSeen(group=group, since=self.since if same else at, at=at)


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One migration of one run. `goal` is the mode that it ends in; going back only changes it.

    revisions: the pipeline's revision of each mode that it needs. missing: of a STOPPED one, what it waits for.
    waived: clauses of the preflight that somebody has answered for, with the reason.
    offsets: what the group had committed before it began, by partition; what an audit and a person compare with.
    audit_id: of the audit of its time. group_seen: the group over the last looks.
    shut_out: when it was proven that no producer of a mode can commit any more, which is what its other neighbour asks.
    archived: the ids of the partitions as they were when they were given up, by partition.
    gate: what it waits for, as the last look has found it.
    ends_seen: of partitions of the sink where readers were seen to wait in the last stage, where the log ended then.
    looked_at, watched_since: when a server looked last, and since when looks have followed each other.
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
    steps: tuple[Step, ...] = ()
    held: tuple[Held, ...] = ()
    fenced: tuple[Fenced, ...] = ()
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
    def step(self) -> Step | None:
        """The one that is underway or late: there is at most one."""
        return next((one for one in self.steps if one.state in (StepState.UNDERWAY, StepState.LATE)), None)

    @property
    def last_step_at(self) -> datetime:
        """Since when nothing is done but waiting for the stage's gate."""
        ended = [one.ended_at for one in self.steps if one.ended_at is not None and one.stage is self.stage]
        return max([self.stage_since, self.state_since, *ended])

    def waits_since(self, began_at: datetime) -> datetime:
        """Since when something that began then is waited for: while no server looks, nothing can be seen to come."""
        return began_at if self.watched_since is None else max(began_at, self.watched_since)

    def looked(self, at: datetime) -> Migration:
        """With one more look."""
        goes_on = self.looked_at is not None and at - self.looked_at <= UNWATCHED
        return replace(self, looked_at=at, watched_since=self.watched_since if goes_on else at)

    def fence_of(self, transactional_id: str) -> Fenced | None:
        """The newest of ours; two of one step where two servers have asked, of which the later one counts."""
        found = [one for one in self.fenced if one.incarnation.transactional_id == transactional_id]
        return max(found, key=lambda one: (one.step, one.at), default=None)

    def gave_up(self, transactional_id: str) -> Fenced | None:
        """Our newest fence of the id, if its stage has given the id up for good; not one that somebody asked for."""
        for_good = {one.number for one in self.steps if one.kind is StepKind.FENCE and one.by is None}
        fence = self.fence_of(transactional_id)
        return fence if fence is not None and fence.step in for_good else None

    def held_by(self, ordinal: int, lease: int) -> Held | None:
        return next((one for one in self.held if (one.ordinal, one.lease) == (ordinal, lease)), None)

    def in_state(self, state: MigrationState, *, now: datetime, missing: str = "") -> Migration:
        """Raises IllegalTransitionError."""
        if state not in TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"a migration cannot go from {self.state} to {state}")
        ended_at = now if state in ENDED else None
        return replace(self, state=state, state_since=now, missing=missing, ended_at=ended_at)

    def in_stage(self, stage: Stage, *, now: datetime) -> Migration:
        """Raises IllegalTransitionError."""
        if stage not in NEXT_STAGES[self.stage]:
            raise IllegalTransitionError(f"a migration cannot go from {self.stage} to {stage}")
        return replace(self, stage=stage, stage_since=now, ends_seen={})

    def next_step(self, kind: StepKind, *, began_at: datetime, **fields: Any) -> Step:
        """A step of this stage, under the next number."""
        number = max((one.number for one in self.steps), default=0) + 1
        return Step(number=number, stage=self.stage, kind=kind, began_at=began_at, **fields)

    def with_step(self, step: Step) -> Migration:
        """With this step in the place of the one of its number, or after the last."""
        others = tuple(one for one in self.steps if one.number != step.number)
        return replace(self, steps=tuple(sorted((*others, step), key=lambda one: one.number)))
