"""REST shapes of migrations."""

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
    """goal: the mode that every instance ends in. waived: the reason for each waived condition, by its name."""

    goal: Annotated[Mode, Field(strict=False)] = Mode.V2
    waived: Annotated[dict[str, Reason], Field(default_factory=dict, max_length=10)]
    why: Why = None


class RollbackGiven(Body):
    """to: generation, or group_only, which includes generation."""

    to: Annotated[Mode, Field(strict=False)]
    why: Why = None


class IdToFence(Body):
    """transactional_id: of an input partition; no live task may hold it."""

    transactional_id: Annotated[str, Field(min_length=1, max_length=1000)]
    why: Why = None


@shows(migration.MigrationStep)
class MigrationStep:
    """ordinal, lease, to: of a bounce, the instance, the replaced lease, and the new mode. ids: of a fence."""


@shows(look.Held)
class Held:
    """The highest epoch of each id that a lease reported."""


@shows(migration.FencedId)
class FencedId:
    """The answer to the server's own fence, and its step."""


@shows(judged.Judged)
class Clause:
    """A condition of a gate. asks: the requirement. seen: the finding."""


# The newest state of the conditions is returned as the gate.
@shows(migration.Migration, without=("ends_seen", "gate", "group_seen", "looked_at", "watched_since"))
class Migration:
    """One migration of one run. missing: of a stopped one, what it waits for. offsets: committed before it began.

    shut_out: when the last producer of a mode was proven unable to commit. archived: retired ids of partitions.
    """


class Gate(Answer):
    """The conditions that are checked now: those of the stage's gate, or of the current step.

    They are as the newest check found them; a paused migration is not checked.
    """

    clauses: list[Shown[judged.Judged]]


@shows(plan.PlannedStep)
class PlannedStep:
    """kind: null where a stage only checks. usually_s: null for the audit, whose time is unknown."""


@shows(look.InstanceNow)
class InstanceMode:
    """target: the mode of its next lease."""


@shows(planning.MigrationPlan)
class MigrationPlan:
    """preflight: its conditions now. measured: whether the time of a bounce was measured in this pipeline.

    usually_s: of all steps, without the audit.
    """

    usually_s: float


@shows(record.IdProof)
class Proof:
    """An id's newest incarnation in the journal, its owner, and the evidence.

    partition, offset, journal_at: the record of `__transaction_state`. heard_at: when the task reported it.
    fenced_in: the step in which the server initialised it.
    """


@shows(record.Evidence)
class Evidence:
    """A gate that opened, or a step that began or ended. look: the complete state; proofs: its ids."""

    look: Annotated[dict[str, Any], BeforeValidator(as_json)]


@shows(alarms.Alarm)
class Alarm:
    """host, pid: the process concerned, if known."""
