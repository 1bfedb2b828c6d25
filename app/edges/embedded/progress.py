"""Showing a download: a bar on a terminal, a line now and then elsewhere."""

import contextlib
from collections.abc import Generator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from app.edges.embedded.maven import FetchProgress, OnProgress

# In a log, a line for each tenth is enough to see that it moves.
_PLAIN_STEPS = 10


@contextlib.contextmanager
def shown_progress(console: Console) -> Generator[OnProgress]:
    """Yields a callback for `ensure_jars` or `KafkaCluster.start`; nothing appears unless something is downloaded."""
    if not console.is_terminal:
        yield lambda progress: _say(console, progress)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[file_name]}"),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def move(progress: FetchProgress) -> None:
            if progress.manifest not in tasks:
                tasks[progress.manifest] = bars.add_task(
                    f"downloading {progress.manifest}", total=progress.total, file_name=""
                )
            bars.update(tasks[progress.manifest], completed=progress.done, file_name=progress.file_name)

        yield move


def _say(console: Console, progress: FetchProgress) -> None:
    step = max(1, progress.total // _PLAIN_STEPS)
    if progress.done % step == 0 or progress.done == progress.total:
        console.print(
            f"downloading {progress.manifest}: {progress.done} of {progress.total} jars ({progress.file_name})",
            soft_wrap=True,
            highlight=False,
        )
