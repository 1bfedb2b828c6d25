"""How a task's commits are guarded: the three modes that a migration leads through, one at a time."""

from __future__ import annotations

from enum import StrEnum

from msgspec.structs import replace

from app.core.pipelines.pipeline import OffsetFencing, PipelineDefinition, ProcessingGuarantee


class Mode(StrEnum):
    """
    GROUP_ONLY ⇄ GENERATION ⇄ V2

    GROUP_ONLY: a producer for each input partition; its epoch alone ends a producer that sleeps.
    GENERATION: the same, and the group refuses offsets of members that have left it.
    V2: a producer for each task; only the group knows whose a partition is.

    Neighbours may be in one group together. GROUP_ONLY beside V2 may not: who takes a partition over as V2 leaves the
    id of that partition alone, and so does not end a producer that sleeps under it (KIP-447, "Compatibility").
    """

    GROUP_ONLY = "group_only"
    GENERATION = "generation"
    V2 = "v2"

    @property
    def words(self) -> str:
        """As a definition says it."""
        guarantee, fencing = DEFINED_BY[self]
        return f"{guarantee} with {fencing}" if self is not Mode.V2 else str(guarantee)


DEFINED_BY: dict[Mode, tuple[ProcessingGuarantee, OffsetFencing]] = {
    Mode.GROUP_ONLY: (ProcessingGuarantee.EXACTLY_ONCE, OffsetFencing.GROUP_ONLY),
    Mode.GENERATION: (ProcessingGuarantee.EXACTLY_ONCE, OffsetFencing.GENERATION),
    Mode.V2: (ProcessingGuarantee.EXACTLY_ONCE_V2, OffsetFencing.GENERATION),
}


def mode_of(definition: PipelineDefinition) -> Mode | None:
    """The mode that instances of this definition run in; None: one that no migration leads through."""
    wanted = definition.processing_guarantee, definition.offset_fencing
    return next((mode for mode, defined in DEFINED_BY.items() if defined == wanted), None)


def in_mode(definition: PipelineDefinition, mode: Mode) -> PipelineDefinition:
    """The same definition in another mode."""
    guarantee, fencing = DEFINED_BY[mode]
    return replace(definition, processing_guarantee=guarantee, offset_fencing=fencing)


def is_unsafe_at_once(before: Mode | None, after: Mode | None) -> bool:
    """Whether going from one to the other without a stage between them may process records twice."""
    return {before, after} == {Mode.GROUP_ONLY, Mode.V2}
