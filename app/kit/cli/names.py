"""Names that a shell completes: `fenceline --install-completion`, then Tab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from app.kit.cli.client import connect
from app.kit.cli.errors import CommandError


def names_of(noun: str) -> Callable[[str], list[str]]:
    """Return the names of all pipelines (or clusters) that begin with the typed text."""

    def complete(incomplete: str) -> list[str]:
        try:
            client = connect()
            items = client.items(f"/{noun}") if noun == "pipelines" else client.get(f"/{noun}")["items"]
            return [name for item in items if (name := str(item["name"])).startswith(incomplete)]
        except CommandError:
            # Completion shows no errors; the command itself will.
            return []

    return complete


PipelineName = Annotated[str, typer.Argument(metavar="PIPELINE", autocompletion=names_of("pipelines"))]
ClusterName = Annotated[str, typer.Argument(metavar="CLUSTER", autocompletion=names_of("clusters"))]
