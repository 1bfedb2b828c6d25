"""What a migration would do, before it is begun: each step with how long it usually takes, and its way back."""

from __future__ import annotations

import msgspec

from app.core.runs.mode import Mode
from app.products.migrations.decision import TARGETS, left_by, next_stage
from app.products.migrations.evidence import STABLE_FOR
from app.products.migrations.migration import Stage, StepKind

BOUNCE_S = 45.0
"""A drain, and a start of Spark: what is said until a bounce of this pipeline was measured."""
FENCE_S = 0.2
WAY_BACK: dict[Stage, str] = {
    Stage.PREFLIGHT: "Nothing is touched: abort it.",
    Stage.FIRST_BOUNCE: "Back to group_only: each instance that sends its generation begins anew without it, one at a "
    "time. Both may run beside each other.",
    Stage.SECOND_BOUNCE: "Back to generation: each instance that is v2 begins anew with a producer for each partition, "
    "and the ids of its tasks are fenced; only from there to group_only.",
    Stage.BACK_TO_GENERATION: "None but forward again, as another migration, when this one is done or aborted.",
    Stage.BACK_TO_GROUP_ONLY: "None but forward again, as another migration, when this one is done or aborted.",
    Stage.VERIFY: "As from the stage before: everything can still be turned round.",
}
"""The way back from each stage, as the plan and the page say it."""
WHY: dict[Stage, str] = {
    Stage.PREFLIGHT: "It asks brokers, group and tasks whether all that the other stages rest on is so.",
    Stage.FIRST_BOUNCE: "Every instance must send its generation with its offsets, and every input partition's id must "
    "have been initialised by one that does: that shuts out a producer that sleeps without a generation.",
    Stage.SECOND_BOUNCE: "Only now one producer a task is enough: who left the group is refused by its generation. The "
    "ids of the partitions are then fenced once, and archived.",
    Stage.BACK_TO_GENERATION: "A producer for each partition again, beside those of tasks; the ids of the tasks are "
    "fenced when the last of these has gone.",
    Stage.BACK_TO_GROUP_ONLY: "Only when nobody has a producer for a task may offsets be sent without a generation: "
    "such clients do not wait for offsets that another one has pending.",
    Stage.VERIFY: "Readers get to the end, nothing is open under what was given up, and an audit of the time counts "
    "every record once.",
}


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """kind None: the stage only looks. usually_s: None: as long as the audit takes."""

    stage: Stage
    kind: StepKind | None
    sentence: str
    usually_s: float | None
    way_back: str


def planned(
    modes: dict[int, Mode | None], goal: Mode, *, partition_ids: int, task_ids: int, bounce_s: float = BOUNCE_S
) -> tuple[PlannedStep, ...]:
    """The steps from the modes of instances, by ordinal, to the goal. Ids that nobody ever used are not fenced."""
    steps: list[PlannedStep] = []
    now = dict(modes)
    for stage in stages_to(goal):
        steps += _of_stage(stage, now, goal, partition_ids=partition_ids, task_ids=task_ids, bounce_s=bounce_s)
    return tuple(steps)


def stages_to(goal: Mode) -> tuple[Stage, ...]:
    """In their order."""
    stages = [Stage.PREFLIGHT]
    while (after := next_stage(stages[-1], goal)) is not None:
        stages.append(after)
    return tuple(stages)


def _of_stage(
    stage: Stage, now: dict[int, Mode | None], goal: Mode, *, partition_ids: int, task_ids: int, bounce_s: float
) -> list[PlannedStep]:
    back = WAY_BACK[stage]

    def step(kind: StepKind | None, sentence: str, usually_s: float | None) -> PlannedStep:
        return PlannedStep(stage=stage, kind=kind, sentence=sentence, usually_s=usually_s, way_back=back)

    if stage is Stage.PREFLIGHT:
        return [step(None, "ask brokers, group and tasks; nothing is changed", STABLE_FOR.total_seconds())]
    if stage is Stage.VERIFY:
        return [step(None, "look at readers and open transactions, and audit the time of the migration", None)]
    to = TARGETS[stage]
    leaves = left_by(stage, goal)
    found: list[PlannedStep] = []
    for ordinal, mode in sorted(now.items()):
        if mode in leaves:
            now[ordinal] = to
            sentence = f"bounce instance {ordinal} from {mode} to {to}"
            found.append(step(StepKind.BOUNCE, sentence, bounce_s + STABLE_FOR.total_seconds()))
    if stage is Stage.SECOND_BOUNCE and partition_ids:
        found.append(
            step(StepKind.FENCE, f"fence and archive {partition_ids} ids of partitions", partition_ids * FENCE_S)
        )
    if stage is Stage.BACK_TO_GENERATION and task_ids:
        found.append(step(StepKind.FENCE, f"fence {task_ids} ids of tasks", task_ids * FENCE_S))
    return found
