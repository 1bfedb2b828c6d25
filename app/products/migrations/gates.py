"""The conditions of the gate of each stage, and of each step. The table of docs/migration.md is made from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from app.core.runs.mode import Mode
from app.products.migrations import evidence
from app.products.migrations.clause import Clause, StepClause
from app.products.migrations.look import MigrationLook
from app.products.migrations.migration import Migration, MigrationStepKind, Stage
from app.products.migrations.preflight import PREFLIGHT

SEEN_SINCE = Clause(
    name="seen_since",
    asks="The journal was read, and every task sent a heartbeat, after the newest end of a lease.",
    judge=evidence.seen_since,
)
ALL_RUN = Clause(
    name="all_run", asks="Every instance runs, and all of its tasks send heartbeats.", judge=evidence.all_run
)
GROUP_STABLE = Clause(
    name="group_stable",
    asks="Checks over 5 s find the same generation and members, in state Stable.",
    judge=evidence.group_is_stable,
)
NONE_GROUP_ONLY = Clause(
    name="none_group_only",
    asks="No instance commits without its generation.",
    judge=lambda _, look: evidence.no_instance_in(Mode.GROUP_ONLY, look),
    remedy=MigrationStepKind.BOUNCE,
)
IDS_TAKEN_OVER = Clause(
    name="ids_taken_over",
    asks="The newest incarnation of every partition's id belongs to a live task that sends its generation, or to "
    "Fenceline's fence. Nothing else fences a frozen producer without a generation.",
    judge=evidence.ids_taken_over,
)
MEMBERS_KNOWN = Clause(
    name="members_known",
    asks="Every member of the group is a live task of a current lease. A task of an ended lease may be alive and get "
    "partitions.",
    judge=evidence.members_known,
)
ALL_V2 = Clause(
    name="all_v2",
    asks="Every instance has one producer for each task.",
    judge=lambda _, look: evidence.all_instances_in(Mode.V2, look),
    remedy=MigrationStepKind.BOUNCE,
)
OLD_IDS_FENCED = Clause(
    name="old_ids_fenced",
    asks="Every partition's id was initialised once by the server, and by no other client since.",
    judge=lambda migration, look: evidence.ids_fenced(migration, look, evidence.partition_ids(migration, look)),
    remedy=MigrationStepKind.FENCE,
)
ALL_GENERATION = Clause(
    name="all_generation",
    asks="Every instance has one producer for each partition again, and sends its generation.",
    judge=lambda _, look: evidence.all_instances_in(Mode.GENERATION, look),
    remedy=MigrationStepKind.BOUNCE,
)
NONE_V2 = Clause(
    name="none_v2",
    asks="No instance has one producer for each task.",
    judge=lambda _, look: evidence.no_instance_in(Mode.V2, look),
    remedy=MigrationStepKind.BOUNCE,
)
TASK_IDS_FENCED = Clause(
    name="task_ids_fenced",
    asks="Every task's id was initialised once by the server, and by no other client since. Clients without a "
    "generation do not wait for pending offsets of such a producer.",
    judge=lambda migration, look: evidence.ids_fenced(migration, look, evidence.task_ids(migration, look)),
    remedy=MigrationStepKind.FENCE,
)
ALL_GROUP_ONLY = Clause(
    name="all_group_only",
    asks="Every instance commits without its generation again.",
    judge=lambda _, look: evidence.all_instances_in(Mode.GROUP_ONLY, look),
    remedy=MigrationStepKind.BOUNCE,
)
IDS_HELD = Clause(
    name="ids_held",
    asks="The newest incarnation of every partition's id belongs to a live task, or to Fenceline's fence.",
    judge=evidence.ids_held,
)
AT_GOAL = Clause(
    name="at_goal",
    asks="Every instance is in the goal mode.",
    judge=lambda migration, look: evidence.all_instances_in(migration.goal, look),
)
NOTHING_OPEN = Clause(
    name="nothing_open",
    asks="No transaction is open under a retired id.",
    judge=lambda migration, look: evidence.nothing_open_under(
        look,
        evidence.partition_ids(migration, look) if migration.goal is Mode.V2 else evidence.task_ids(migration, look),
    ),
)
CAUGHT_UP = Clause(
    name="readers_reach_the_end",
    asks="read_committed consumers can read up to the sink's end as it was when they were first found blocked.",
    judge=evidence.readers_reach_the_end,
)
AUDITED = Clause(
    name="audited",
    asks="An audit of the migration's time found nothing lost and nothing duplicated.",
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
"""Conditions that a user may waive, with a reason."""

BEFORE_BOUNCE: Sequence[Clause] = (ALL_RUN, GROUP_STABLE)
"""An instance is bounced only while all others run."""

MOVED = StepClause(
    name="moved", asks="The instance's next lease runs in its new mode, with all of its tasks.", judge=evidence.moved
)
DRAINED = StepClause(
    name="drained",
    asks="No transaction of the old lease's ids is open, except one that a live task has begun since.",
    judge=evidence.drained,
)
FENCED = StepClause(name="fenced", asks="The server has initialised each id.", judge=evidence.step_fenced)


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    """All gates. `without` is for the tests that show the effect of each condition."""

    stages: StageGates
    before_bounce: Sequence[Clause]
    after: Mapping[MigrationStepKind, Sequence[StepClause]]

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
    after={MigrationStepKind.BOUNCE: (MOVED, DRAINED), MigrationStepKind.FENCE: (FENCED,)},
)


def ids_to_fence(clause: str, migration: Migration, look: MigrationLook) -> tuple[str, ...]:
    """Return the ids that the condition requires to be fenced and that the journal has."""
    ids = evidence.partition_ids if clause == OLD_IDS_FENCED.name else evidence.task_ids
    return tuple(name for name in ids(migration, look) if name in look.ids)
