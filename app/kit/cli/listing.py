"""The `list` of a noun that belongs to pipelines: newest first, of all pipelines or of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from app.kit.cli.client import connect
from app.kit.cli.names import names_of
from app.kit.cli.output import present, table

OfPipeline = Annotated[
    str | None,
    typer.Option("--pipeline", "-p", help="Only of this pipeline.", autocompletion=names_of("pipelines")),
]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of items, newest first.")]


def show_list(
    path: str,
    columns: Sequence[str],
    row: Callable[[Any], Sequence[RenderableType | str | None]],
    *,
    empty: str,
    pipeline: str | None,
    limit: int,
    as_json: bool,
    watch_it: bool,
) -> None:
    """Print the API's items at `path`, each by `row` under `columns`; `empty` is the first step without any."""
    client = connect()

    def items() -> list[Any]:
        return list(client.items(path, limit=limit, pipeline=pipeline))

    present(items, lambda: table(columns, map(row, items()), empty=empty), as_json=as_json, watch_it=watch_it)
