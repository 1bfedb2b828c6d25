"""The output of commands: tables for people, JSON for programs, errors on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import IO, Annotated, Any, TypeVar

import orjson
import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from app.kit import words
from app.kit.cli.errors import CommandError
from app.kit.cli.watching import is_away
from app.kit.patience import Patience
from app.kit.printable import ascii_escapes, harmless, one_line

T = TypeVar("T")

_UNBOUNDED = 1_000_000
"""The width without a terminal: a file, or the next program of a pipe, gets every line uncut."""


class _Screen(Console):
    """Make a console that prints names with any characters harmlessly, and cuts nothing.

    A table is folded to a terminal's width. A line for copying stays one line; the terminal wraps it.
    """

    def __init__(self, *, file: IO[str] | None = None, stderr: bool = False) -> None:
        to = file or (sys.stderr if stderr else sys.stdout)
        super().__init__(file=file, stderr=stderr, highlight=False, width=None if to.isatty() else _UNBOUNDED)

    def print(self, *objects: Any, crop: bool = False, **options: Any) -> None:
        super().print(*objects, crop=crop, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else harmless(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)


console = _Screen()
_errors = _Screen(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one document.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Refresh every second until Ctrl-C.")]
Why = Annotated[str | None, typer.Option("--why", "-m", help="The reason, for the command log.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]

_STATE_STYLES = {
    "running": "green",
    "paused": "yellow",
    "degraded": "red",
    "crash-looping": "red",
    "not progressing": "red",
    "failed": "red",
    "lost": "red",
    "unreachable": "red",
    "fenced": "red",
    "stopped": "dim",
    "drained": "dim",
    "superseded": "dim",
    "clean": "green",
    "broken": "bold red",
    "not_shown": "yellow",
    "skipped": "yellow",
    "empty": "dim",
}


def say_error(error: CommandError) -> None:
    _errors.print(Text.assemble(("error: ", "bold red"), error.message), soft_wrap=True)
    for line in error.lines:
        _errors.print(Text(f"  {line}"), soft_wrap=True)


def say(sentence: str) -> None:
    console.print(Text(sentence), soft_wrap=True)


def json_text(value: Any, *, is_indented: bool = False, default: Callable[[Any], Any] | None = None) -> str:
    """Return JSON that is safe on a terminal: control characters are escaped, and its value is the same."""
    option = orjson.OPT_INDENT_2 if is_indented else None
    return ascii_escapes(orjson.dumps(value, default=default, option=option).decode("utf-8"))


def print_json(value: Any, *, is_indented: bool = True) -> None:
    sys.stdout.write(json_text(value, is_indented=is_indented) + "\n")


def state(word: str | None) -> Text:
    """Return a state in its colour."""
    return Text("–", style="dim") if word is None else Text(word, style=_STATE_STYLES.get(word, "cyan"))


def ago(moment: datetime | None, *, now: datetime | None = None) -> str:
    """Return `3 s ago`, `2 h ago`; a dash for never. A server's clock that is ahead gives `now`, never `in 3 s`."""
    now = now or datetime.now(UTC)
    return words.ago(None if moment is None else min(moment, now), now)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[RenderableType | str | None]], *, empty: str
) -> RenderableType:
    """Make a table; columns whose name ends in `#` hold numbers. Without rows it shows `empty`."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        is_number = column.endswith("#")
        made.add_column(
            column.removesuffix("#"),
            justify="right" if is_number else "left",
            overflow="fold",
            # Numbers and states stay on one line; names and reasons may wrap.
            no_wrap=is_number or column == "STATE",
        )
    for row in rows:
        made.add_row(*(Text("–", style="dim") if cell is None else _safe(cell) for cell in row))
    return made if made.row_count else Text(empty, style="dim")


def _safe(cell: RenderableType | str) -> RenderableType:
    """Make a cell of text from outside, without markup and on one line."""
    # Before the columns get their widths: a later replacement may not fit any more, and would be cut.
    return Text(one_line(cell)) if isinstance(cell, str) else cell


def watch(render: Callable[[], RenderableType], *, until: Callable[[], bool] = lambda: False) -> None:
    """Refresh `render` every second until Ctrl-C or until `until` holds.

    Without an answer, the last one stays with a line that reports it.
    """
    patience = Patience()
    shown = render()
    with Live(shown, console=console, auto_refresh=False) as live:
        while not until():
            time.sleep(1)
            try:
                shown = render()
            except CommandError as error:
                if not is_away(error) or not patience.lasts():
                    raise
                live.update(Group(shown, Text(f"retrying: {error.message}", style="red")), refresh=True)
                continue
            patience.answered()
            live.update(shown, refresh=True)


def present(
    read: Callable[[], T],
    render: Callable[[T], RenderableType],
    *,
    as_json: bool,
    watch_it: bool = False,
    document: Callable[[T], Any] = lambda found: found,
) -> None:
    """Print the answer of a read-only command: once as JSON, once as text, or as text until Ctrl-C.

    document: makes the JSON of an answer that is not JSON itself.
    """
    if as_json:
        print_json(document(read()))
    elif watch_it:
        watch(lambda: render(read()))
    else:
        console.print(render(read()))


def confirm_or_exit(question: str, *, is_confirmed: bool) -> None:
    """Ask unless `--yes` was given; without a terminal to ask on, `--yes` is needed."""
    if is_confirmed:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Give --yes to confirm; there is no terminal to ask on.")
    if not typer.confirm(question):
        raise CommandError("cancelled: nothing was changed")
