"""Migrations at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from app.domain.migrations.alarms import AlarmKind
from app.domain.migrations.judged import Standing
from app.domain.migrations.migration import MigrationState, Stage, StepKind, StepState
from app.domain.migrations.mode import Mode
from app.domain.runs.instance import InstanceState
from app.services.migrating import planning
from app.web.api.schemas.base import Answer, Body
from app.web.api.schemas.words import Why

Reason = Annotated[str, Field(pattern=r"^[^\x00]*\S[^\x00]*$", max_length=1000)]


class MigrationGiven(Body):
    """goal: the mode that every instance ends in. waived: by a waivable clause's name, why it does not matter here."""

    goal: Annotated[Mode, Field(strict=False)] = Mode.V2
    waived: Annotated[dict[str, Reason], Field(default_factory=dict, max_length=10)]
    why: Why = None


class RollbackGiven(Body):
    """to: generation, or by way of it group_only."""

    to: Annotated[Mode, Field(strict=False)]
    why: Why = None


class IdToFence(Body):
    """transactional_id: of an input partition, which no live task holds."""

    transactional_id: Annotated[str, Field(min_length=1, max_length=1000)]
    why: Why = None


class Incarnation(Answer):
    transactional_id: str
    producer_id: int
    producer_epoch: int


class MigrationStep(Answer):
    """ordinal, lease, to: of a bounce, the instance, the lease that it replaces, and its new mode. ids: of a fence."""

    number: int
    stage: Stage
    kind: StepKind
    state: StepState
    began_at: datetime
    ended_at: datetime | None
    ordinal: int | None
    lease: int | None
    to: Mode | None
    ids: list[str]
    by: str | None
    missing: str


class Held(Answer):
    """The highest epoch of each id that a lease was heard to hold."""

    ordinal: int
    lease: int
    mode: Mode | None
    ids: list[Incarnation]


class FencedId(Answer):
    """What the control plane's own fence was answered, and in which step."""

    incarnation: Incarnation
    at: datetime
    step: int


class Clause(Answer):
    """A clause of a gate: what it asks for, and what there is."""

    name: str
    asks: str
    standing: Standing
    seen: str


class Migration(Answer):
    """One migration of one run. missing: of a stopped one, what it waits for. offsets: committed before it began.

    shut_out: when it was proven that no producer of a mode can commit any more. archived: ids of partitions given up.
    """

    id: str
    pipeline: str
    run_id: str
    cluster: str
    group: str
    goal: Mode
    stage: Stage
    state: MigrationState
    stage_since: datetime
    state_since: datetime
    started_at: datetime
    started_by: str
    why: str | None
    revisions: dict[Mode, int]
    steps: list[MigrationStep]
    held: list[Held]
    fenced: list[FencedId]
    waived: dict[str, str]
    offsets: dict[str, int]
    missing: str
    audit_id: str | None
    ended_at: datetime | None
    shut_out: dict[Mode, datetime]
    archived: dict[str, str]


class MigrationPage(Answer):
    items: list[Migration]
    next_cursor: str | None


class Gate(Answer):
    """What the next thing waits for, as it stands now: the clauses of the stage's gate, or of the step's end.

    As the last look has found them; while it is paused nobody looks.
    """

    clauses: list[Clause]


class PlannedStep(Answer):
    """kind: null where a stage only looks. usually_s: null: as long as the audit takes."""

    stage: Stage
    kind: StepKind | None
    sentence: str
    usually_s: float | None
    way_back: str


class InstanceMode(Answer):
    """target: the mode that its next lease begins in."""

    ordinal: int
    lease: int
    mode: Mode | None
    target: Mode | None
    state: InstanceState


class MigrationPlan(Answer):
    """preflight: its clauses as they stand now. measured: whether the time of a bounce is this pipeline's own.

    usually_s: of all steps, but for the audit.
    """

    pipeline: str
    goal: Mode
    preflight: list[Clause]
    steps: list[PlannedStep]
    instances: list[InstanceMode]
    measured: bool
    usually_s: float

    @classmethod
    def of_plan(cls, plan: planning.Plan) -> MigrationPlan:
        return cls.of(plan, usually_s=plan.usually_s)


class Proof(Answer):
    """An id's newest incarnation by the journal, whose it is, and what says so.

    partition, offset, journal_at: the record of `__transaction_state`. heard_at: when the task that holds it said so.
    fenced_in: the step in which the control plane initialised it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_open: bool
    partition: int
    offset: int
    journal_at: datetime | None
    ordinal: int | None
    task: int | None
    lease: int | None
    attempt: int | None
    host: str | None
    pid: int | None
    heard_at: datetime | None
    generation: int | None
    fenced_in: int | None


class Evidence(Answer):
    """A gate that opened, or a step that began or was done. look: all that was seen then; proofs: of it the ids."""

    at: datetime
    who: str
    server: str
    stage: Stage
    sentence: str
    step: int | None
    clauses: list[Clause]
    proofs: list[Proof]
    look: dict[str, Any]


class EvidenceList(Answer):
    items: list[Evidence]


class Alarm(Answer):
    """host, pid: of whom it is about, as far as anybody has said it."""

    kind: AlarmKind
    key: str
    at: datetime
    sentence: str
    host: str | None
    pid: int | None


class AlarmList(Answer):
    items: list[Alarm]
