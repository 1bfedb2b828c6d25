"""Live tasks whose checkpoints all fail, so that nothing is committed."""

from __future__ import annotations

from collections.abc import Iterable

from app.core.runs.run import Run
from app.core.runs.task import TaskStatus
from app.kit.words import duration

_NAMED = 4


def not_progressing(run: Run, tasks: Iterable[TaskStatus]) -> list[TaskStatus]:
    """Return the tasks in a run's live instances that have committed nothing for several transaction timeouts."""
    if run.ended_at is not None:
        return []
    living = {(one.ordinal, one.lease) for one in run.instances if not one.has_ended}
    return [
        status
        for status in tasks
        if status.last.not_progressing_ms is not None and (status.ordinal, status.lease) in living
    ]


def not_progressing_sentence(status: TaskStatus) -> str:
    """Return for how long, and the error of its last checkpoint."""
    why = status.last.last_error or "no error was given"
    lasts = duration(status.last.not_progressing_ms)
    return f"task {status.ordinal}.{status.task} has committed nothing for {lasts}: {why}"


def all_sentences(tasks: list[TaskStatus]) -> str:
    """Return the sentences of the first few, and the number of the others."""
    more = f"; {len(tasks) - _NAMED} more tasks" if len(tasks) > _NAMED else ""
    return "; ".join(map(not_progressing_sentence, tasks[:_NAMED])) + more
