"""The three modes of a migration: how the commits of a task are guarded."""

from __future__ import annotations

from enum import StrEnum

from msgspec.structs import replace

from app.core.pipelines.pipeline import OffsetFencing, PipelineDefinition, ProcessingGuarantee


class Mode(StrEnum):
    """
    GROUP_ONLY ⇄ GENERATION ⇄ V2

    GROUP_ONLY: a producer for each input partition; only its epoch fences a frozen producer.
    GENERATION: the same, and the group rejects offsets of stale members.
    V2: a producer for each task; only the group records the owner of a partition.

    Neighbouring modes may share a group. GROUP_ONLY beside V2 may not: a task that takes over a partition in V2 does
    not initialise the partition's id. So a frozen producer of that id is not fenced (KIP-447, "Compatibility").
    """

    GROUP_ONLY = "group_only"
    GENERATION = "generation"
    V2 = "v2"

    @property
    def words(self) -> str:
        """Return the mode with the values of a definition."""
        guarantee, fencing = DEFINED_BY[self]
        return f"{guarantee} with {fencing}" if self is not Mode.V2 else str(guarantee)

    @property
    def meaning(self) -> str:
        """Return what fences a stale task in this mode, as a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    Mode.GROUP_ONLY: "A producer for each input partition. A takeover fences the old producer by its epoch alone: "
    "the group accepts offsets of stale members.",
    Mode.GENERATION: "A producer for each input partition. The group refuses offsets of stale members, too.",
    Mode.V2: "One producer for each task (KIP-447): fewer producers and transactions. "
    "The group refuses offsets of stale members.",
}
RECOMMENDED = Mode.V2


DEFINED_BY: dict[Mode, tuple[ProcessingGuarantee, OffsetFencing]] = {
    Mode.GROUP_ONLY: (ProcessingGuarantee.EXACTLY_ONCE, OffsetFencing.GROUP_ONLY),
    Mode.GENERATION: (ProcessingGuarantee.EXACTLY_ONCE, OffsetFencing.GENERATION),
    Mode.V2: (ProcessingGuarantee.EXACTLY_ONCE_V2, OffsetFencing.GENERATION),
}


def mode_of(definition: PipelineDefinition) -> Mode | None:
    """Return the mode of a definition's instances; None if no migration supports it, as for a query's driver."""
    if definition.dataframe is not None:
        return None
    wanted = definition.processing_guarantee, definition.offset_fencing
    return next((mode for mode, defined in DEFINED_BY.items() if defined == wanted), None)


def in_mode(definition: PipelineDefinition, mode: Mode) -> PipelineDefinition:
    """Return the same definition in another mode."""
    guarantee, fencing = DEFINED_BY[mode]
    return replace(definition, processing_guarantee=guarantee, offset_fencing=fencing)


def is_unsafe_at_once(before: Mode | None, after: Mode | None) -> bool:
    """Return whether a change of mode without a stage between may duplicate records."""
    return {before, after} == {Mode.GROUP_ONLY, Mode.V2}
