"""The commands that list items of the REST API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

import typer
from rich.console import RenderableType

from app.kit.cli.client import as_record
from app.kit.cli.names import names_of
from app.kit.cli.output import present, table

T = TypeVar("T")

OfPipeline = Annotated[
    str | None,
    typer.Option("--pipeline", "-p", help="Only of this pipeline.", autocompletion=names_of("pipelines")),
]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of items, newest first.")]


def show_list(
    read: Callable[[], Iterable[Any]],
    columns: Sequence[str],
    row: Callable[[T], Sequence[RenderableType | str | None]],
    *,
    record: type[T],
    empty: str,
    as_json: bool,
    watch_it: bool = False,
) -> None:
    """Print the items that `read` gets, each as a `record` by `row` under `columns`.

    empty: the first step, shown if there are no items.
    """
    present(
        lambda: list(read()),
        lambda items: table(columns, (row(as_record(item, record)) for item in items), empty=empty),
        as_json=as_json,
        watch_it=watch_it,
    )
