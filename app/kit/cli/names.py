"""Names that a shell completes: `fenceline --install-completion`, then Tab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from app.kit.cli.client import connect
from app.kit.cli.errors import CommandError


def names_of(noun: str) -> Callable[[str], list[str]]:
    """Gives the names of all pipelines (or clusters) that begin with what was typed."""

    def complete(incomplete: str) -> list[str]:
        try:
            client = connect()
            items = client.items(f"/{noun}") if noun == "pipelines" else client.get(f"/{noun}")["items"]
            return [name for item in items if (name := str(item["name"])).startswith(incomplete)]
        except CommandError:
            # A shell that completes is no place for an error; the command itself will say it.
            return []

    return complete


PipelineName = Annotated[str, typer.Argument(metavar="PIPELINE", autocompletion=names_of("pipelines"))]
ClusterName = Annotated[str, typer.Argument(metavar="CLUSTER", autocompletion=names_of("clusters"))]
