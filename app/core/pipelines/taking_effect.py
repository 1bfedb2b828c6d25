"""When a changed field of a pipeline takes effect, before it is saved."""

from __future__ import annotations

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.revision import Change, diff
from app.core.pipelines.state_changes import StateEffect, state_changes
from app.core.runs.run import fields_that_need_full_restart

_DRAIN = "Refused while a run lives: drain it first."
_GROUP = "Needs a full restart. The new group begins without offsets of its own."
_FULL = "Needs a full restart: the run keeps its revision until then."
_CHECKPOINT = "Needs a new checkpoint at the next start."
_ROLLING = "Without a pause: instances restart one at a time after saving."
_WAITS = "At the full restart that another field needs."
_NEXT = "At the next start."


class PendingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that is not saved yet. takes_effect: when, in a sentence."""

    change: Change
    takes_effect: str


def pending_changes(
    current: PipelineDefinition, running: PipelineDefinition | None, after: PipelineDefinition
) -> list[PendingChange]:
    """Return the changes since the current revision. running: the definition of the live run; None: there is none."""
    full = () if running is None else fields_that_need_full_restart(running, after)
    checkpoint = {one.field for one in state_changes(current, after) if one.effect is StateEffect.NEW_CHECKPOINT}
    return [
        PendingChange(change=change, takes_effect=_effect(change.field, running is not None, full, checkpoint))
        for change in diff(current, after)
    ]


def _effect(field: str, is_running: bool, full: tuple[str, ...], checkpoint: set[str]) -> str:
    if any(field == one or field.startswith(f"{one}.") for one in checkpoint):
        return _CHECKPOINT
    if not is_running:
        return _NEXT
    if field == "cluster":
        return _DRAIN
    if field in full:
        return _GROUP if field == "group_id" else _FULL
    return _WAITS if full else _ROLLING
