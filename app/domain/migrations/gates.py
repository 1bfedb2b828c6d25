"""Which clauses open the gate of which stage, and of which step. The table of docs/migration.md is made from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from app.domain.migrations import evidence
from app.domain.migrations.clause import Clause, StepClause
from app.domain.migrations.look import Look
from app.domain.migrations.migration import Migration, Stage, StepKind
from app.domain.migrations.mode import Mode
from app.domain.migrations.preflight import PREFLIGHT

SEEN_SINCE = Clause(
    name="seen_since",
    asks="The journal was read and every task heard after the newest end of a lease.",
    judge=evidence.seen_since,
)
ALL_RUN = Clause(name="all_run", asks="Every instance runs, and all of its tasks are heard.", judge=evidence.all_run)
GROUP_STABLE = Clause(
    name="group_stable",
    asks="Looks of some seconds find the same generation and members, stable.",
    judge=evidence.group_is_stable,
)
NONE_GROUP_ONLY = Clause(
    name="none_group_only",
    asks="No instance commits without its generation any more.",
    judge=lambda _, look: evidence.no_instance_in(Mode.GROUP_ONLY, look),
    remedy=StepKind.BOUNCE,
)
IDS_TAKEN_OVER = Clause(
    name="ids_taken_over",
    asks="The newest incarnation of every input partition's id is of a live task that sends its generation, or of our "
    "own fence: a producer that sleeps without a generation is shut out by nothing else.",
    judge=evidence.ids_taken_over,
)
MEMBERS_KNOWN = Clause(
    name="members_known",
    asks="Every member of the group is a live task of a current lease: one of a lease that is over may be awake, and "
    "be given partitions.",
    judge=evidence.members_known,
)
ALL_V2 = Clause(
    name="all_v2",
    asks="Every instance has one producer a task.",
    judge=lambda _, look: evidence.all_instances_in(Mode.V2, look),
    remedy=StepKind.BOUNCE,
)
OLD_IDS_FENCED = Clause(
    name="old_ids_fenced",
    asks="Every id of an input partition was initialised once by the control plane, and by nobody since.",
    judge=lambda migration, look: evidence.ids_fenced(migration, look, evidence.partition_ids(migration, look)),
    remedy=StepKind.FENCE,
)
ALL_GENERATION = Clause(
    name="all_generation",
    asks="Every instance has a producer for each partition again, and sends its generation.",
    judge=lambda _, look: evidence.all_instances_in(Mode.GENERATION, look),
    remedy=StepKind.BOUNCE,
)
NONE_V2 = Clause(
    name="none_v2",
    asks="No instance has one producer a task any more.",
    judge=lambda _, look: evidence.no_instance_in(Mode.V2, look),
    remedy=StepKind.BOUNCE,
)
TASK_IDS_FENCED = Clause(
    name="task_ids_fenced",
    asks="Every id of a task was initialised once by the control plane, and by nobody since: clients without a "
    "generation do not wait for offsets that such a producer has pending.",
    judge=lambda migration, look: evidence.ids_fenced(migration, look, evidence.task_ids(migration, look)),
    remedy=StepKind.FENCE,
)
ALL_GROUP_ONLY = Clause(
    name="all_group_only",
    asks="Every instance is as it was before.",
    judge=lambda _, look: evidence.all_instances_in(Mode.GROUP_ONLY, look),
    remedy=StepKind.BOUNCE,
)
IDS_HELD = Clause(
    name="ids_held",
    asks="The newest incarnation of every input partition's id is of a live task, or of our own fence.",
    judge=evidence.ids_held,
)
AT_GOAL = Clause(
    name="at_goal",
    asks="No instance is left in another mode.",
    judge=lambda migration, look: evidence.all_instances_in(migration.goal, look),
)
NOTHING_OPEN = Clause(
    name="nothing_open",
    asks="No transaction is open under an id that was given up.",
    judge=lambda migration, look: evidence.nothing_open_under(
        look,
        evidence.partition_ids(migration, look) if migration.goal is Mode.V2 else evidence.task_ids(migration, look),
    ),
)
CAUGHT_UP = Clause(
    name="readers_reach_the_end",
    asks="Readers of committed data get to where the sink ended when they were first seen to wait.",
    judge=evidence.readers_reach_the_end,
)
AUDITED = Clause(
    name="audited",
    asks="An audit of the ids of its time has found nothing lost and nothing duplicated.",
    judge=evidence.audited,
    is_waivable=True,
)

StageGates = Mapping[tuple[Stage, Mode], Sequence[Clause]]
STAGE_GATES: StageGates = {
    **{(Stage.PREFLIGHT, goal): PREFLIGHT for goal in Mode},
    (Stage.FIRST_BOUNCE, Mode.V2): (
        SEEN_SINCE,
        NONE_GROUP_ONLY,
        GROUP_STABLE,
        MEMBERS_KNOWN,
        IDS_TAKEN_OVER,
    ),
    (Stage.SECOND_BOUNCE, Mode.V2): (SEEN_SINCE, ALL_V2, GROUP_STABLE, MEMBERS_KNOWN, OLD_IDS_FENCED),
    (Stage.BACK_TO_GENERATION, Mode.GENERATION): (
        SEEN_SINCE,
        ALL_GENERATION,
        GROUP_STABLE,
        MEMBERS_KNOWN,
        TASK_IDS_FENCED,
        IDS_HELD,
    ),
    (Stage.BACK_TO_GENERATION, Mode.GROUP_ONLY): (
        SEEN_SINCE,
        NONE_V2,
        GROUP_STABLE,
        MEMBERS_KNOWN,
        TASK_IDS_FENCED,
        IDS_HELD,
    ),
    (Stage.BACK_TO_GROUP_ONLY, Mode.GROUP_ONLY): (
        SEEN_SINCE,
        ALL_GROUP_ONLY,
        GROUP_STABLE,
        MEMBERS_KNOWN,
        IDS_HELD,
    ),
    **{(Stage.VERIFY, goal): (AT_GOAL, NOTHING_OPEN, CAUGHT_UP, AUDITED) for goal in Mode},
}
"""By stage and the mode that the migration ends in."""

WAIVABLE = frozenset(clause.name for gate in STAGE_GATES.values() for clause in gate if clause.is_waivable)
"""Clauses that somebody may answer for, with a reason."""

BEFORE_BOUNCE: Sequence[Clause] = (ALL_RUN, GROUP_STABLE)
"""An instance is taken away only while all others are there."""

MOVED = StepClause(
    name="moved", asks="The instance's next lease runs in its new mode, with all of its tasks.", judge=evidence.moved
)
DRAINED = StepClause(
    name="drained",
    asks="Of each id that its old lease held nothing is open, but for what somebody known has begun since.",
    judge=evidence.drained,
)
FENCED = StepClause(name="fenced", asks="Each id was initialised by the control plane.", judge=evidence.step_fenced)


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    """All of them. `without` is for the tests that show what each clause is for."""

    stages: StageGates
    before_bounce: Sequence[Clause]
    after: Mapping[StepKind, Sequence[StepClause]]

    def of(self, migration: Migration) -> Sequence[Clause]:
        return self.stages[migration.stage, migration.goal]

    def without(self, name: str) -> Gates:
        return Gates(
            stages={at: [one for one in gate if one.name != name] for at, gate in self.stages.items()},
            before_bounce=[one for one in self.before_bounce if one.name != name],
            after={kind: [one for one in gate if one.name != name] for kind, gate in self.after.items()},
        )


GATES = Gates(
    stages=STAGE_GATES,
    before_bounce=BEFORE_BOUNCE,
    after={StepKind.BOUNCE: (MOVED, DRAINED), StepKind.FENCE: (FENCED,)},
)


def ids_to_fence(clause: str, migration: Migration, look: Look) -> tuple[str, ...]:
    """Those that the clause asks to have fenced and that the journal has."""
    ids = evidence.partition_ids if clause == OLD_IDS_FENCED.name else evidence.task_ids
    return tuple(name for name in ids(migration, look) if name in look.ids)
