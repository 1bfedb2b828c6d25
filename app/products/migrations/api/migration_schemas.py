"""Migrations at the edge."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from app.core.runs.mode import Mode
from app.kit.web.api.bodies import Answer, Body
from app.kit.web.api.shown import Shown, as_json, shows
from app.kit.web.api.words import Why
from app.products.migrations import alarms, judged, look, migration, plan, record
from app.products.migrations.service import planning

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


@shows(migration.Step)
class MigrationStep:
    """ordinal, lease, to: of a bounce, the instance, the lease that it replaces, and its new mode. ids: of a fence."""


@shows(look.Held)
class Held:
    """The highest epoch of each id that a lease was heard to hold."""


@shows(migration.Fenced)
class FencedId:
    """What the control plane's own fence was answered, and in which step."""


@shows(judged.Judged)
class Clause:
    """A clause of a gate: what it asks for, and what there is."""


# What the last looks saw is shown as the gate.
@shows(migration.Migration, without=("ends_seen", "gate", "group_seen", "looked_at", "watched_since"))
class Migration:
    """One migration of one run. missing: of a stopped one, what it waits for. offsets: committed before it began.

    shut_out: when it was proven that no producer of a mode can commit any more. archived: ids of partitions given up.
    """


class Gate(Answer):
    """What the next thing waits for, as it stands now: the clauses of the stage's gate, or of the step's end.

    As the last look has found them; while it is paused nobody looks.
    """

    clauses: list[Shown[judged.Judged]]


@shows(plan.PlannedStep)
class PlannedStep:
    """kind: null where a stage only looks. usually_s: null: as long as the audit takes."""


@shows(look.InstanceNow)
class InstanceMode:
    """target: the mode that its next lease begins in."""


@shows(planning.Plan)
class MigrationPlan:
    """preflight: its clauses as they stand now. measured: whether the time of a bounce is this pipeline's own.

    usually_s: of all steps, but for the audit.
    """

    usually_s: float


@shows(record.Proof)
class Proof:
    """An id's newest incarnation by the journal, whose it is, and what says so.

    partition, offset, journal_at: the record of `__transaction_state`. heard_at: when the task that holds it said so.
    fenced_in: the step in which the control plane initialised it.
    """


@shows(record.Evidence)
class Evidence:
    """A gate that opened, or a step that began or was done. look: all that was seen then; proofs: of it the ids."""

    look: Annotated[dict[str, Any], BeforeValidator(as_json)]


@shows(alarms.Alarm)
class Alarm:
    """host, pid: of whom it is about, as far as anybody has said it."""
