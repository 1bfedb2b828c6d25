"""The plan of a migration: each step with its usual duration and its rollback."""

from __future__ import annotations

import msgspec

from app.core.runs.mode import Mode
from app.products.migrations.decision import TARGETS, left_by, next_stage
from app.products.migrations.evidence import STABLE_FOR
from app.products.migrations.migration import MigrationStepKind, Stage

BOUNCE_S = 45.0
"""A drain and a start of Spark; used until a bounce of this pipeline was measured."""
FENCE_S = 0.2
WAY_BACK: dict[Stage, str] = {
    Stage.PREFLIGHT: "Abort: nothing has changed yet.",
    Stage.FIRST_BOUNCE: "To group_only: each instance that sends its generation restarts without it, one at a time. "
    "Both modes may run at the same time.",
    Stage.SECOND_BOUNCE: "To generation: each v2 instance restarts with a producer for each partition, and the ids of "
    "its tasks are fenced; only from there to group_only.",
    Stage.BACK_TO_GENERATION: "Forward only: as another migration, when this one is done or aborted.",
    Stage.BACK_TO_GROUP_ONLY: "Forward only: as another migration, when this one is done or aborted.",
    Stage.VERIFY: "As in the stage before: a full rollback is possible.",
}
"""The way back from each stage, as the plan and the page say it."""
WHY: dict[Stage, str] = {
    Stage.PREFLIGHT: "Checks brokers, group and tasks for the conditions that the later stages rely on.",
    Stage.FIRST_BOUNCE: "Every instance must commit offsets with its generation, and initialise its partitions' ids. "
    "That fences frozen producers without a generation.",
    Stage.SECOND_BOUNCE: "One producer for each task is enough now: the generation fences stale members. The ids of "
    "the partitions are then fenced once, and archived.",
    Stage.BACK_TO_GENERATION: "A producer for each partition again, while others have one for each task. The ids of "
    "the tasks are fenced after the last v2 instance has ended.",
    Stage.BACK_TO_GROUP_ONLY: "Offsets may be committed without a generation only when no task has its own producer: "
    "such clients do not wait for pending offsets.",
    Stage.VERIFY: "The sink's LSO advances, no transaction is open under a retired id, and an audit of the time counts "
    "every record once.",
}


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """kind None: the stage only checks. usually_s: None: not known, as for an audit."""

    stage: Stage
    kind: MigrationStepKind | None
    sentence: str
    usually_s: float | None
    way_back: str


def planned(
    modes: dict[int, Mode | None], goal: Mode, *, partition_ids: int, task_ids: int, bounce_s: float = BOUNCE_S
) -> tuple[PlannedStep, ...]:
    """Plan the steps from the instances' modes, by ordinal, to the goal. Ids that were never used are not fenced."""
    steps: list[PlannedStep] = []
    now = dict(modes)
    for stage in stages_to(goal):
        steps += _of_stage(stage, now, goal, partition_ids=partition_ids, task_ids=task_ids, bounce_s=bounce_s)
    return tuple(steps)


def stages_to(goal: Mode) -> tuple[Stage, ...]:
    """Return the stages in order."""
    stages = [Stage.PREFLIGHT]
    while (after := next_stage(stages[-1], goal)) is not None:
        stages.append(after)
    return tuple(stages)


def _of_stage(
    stage: Stage, now: dict[int, Mode | None], goal: Mode, *, partition_ids: int, task_ids: int, bounce_s: float
) -> list[PlannedStep]:
    back = WAY_BACK[stage]

    def step(kind: MigrationStepKind | None, sentence: str, usually_s: float | None) -> PlannedStep:
        return PlannedStep(stage=stage, kind=kind, sentence=sentence, usually_s=usually_s, way_back=back)

    if stage is Stage.PREFLIGHT:
        return [step(None, "check brokers, group and tasks; changes nothing", STABLE_FOR.total_seconds())]
    if stage is Stage.VERIFY:
        return [step(None, "check consumers and open transactions, and audit the time of the migration", None)]
    to = TARGETS[stage]
    leaves = left_by(stage, goal)
    found: list[PlannedStep] = []
    for ordinal, mode in sorted(now.items()):
        if mode in leaves:
            now[ordinal] = to
            sentence = f"bounce instance {ordinal} from {mode} to {to}"
            found.append(step(MigrationStepKind.BOUNCE, sentence, bounce_s + STABLE_FOR.total_seconds()))
    if stage is Stage.SECOND_BOUNCE and partition_ids:
        found.append(
            step(
                MigrationStepKind.FENCE, f"fence and archive {partition_ids} ids of partitions", partition_ids * FENCE_S
            )
        )
    if stage is Stage.BACK_TO_GENERATION and task_ids:
        found.append(step(MigrationStepKind.FENCE, f"fence {task_ids} ids of tasks", task_ids * FENCE_S))
    return found
