"""`fenceline problems`: the open problems of all clusters and pipelines."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from app.kit.cli.client import connect
from app.kit.cli.output import AsJson, Watch, ago, present, table
from app.kit.words import count

_GRAVE = ("wrong", "stopped")


def problems(as_json: AsJson = False, watch_it: Watch = False) -> None:
    """List the open problems of all clusters and pipelines, the gravest first."""
    client = connect()
    present(lambda: client.get("/problems"), rendered, as_json=as_json, watch_it=watch_it)


def rendered(found: dict[str, Any]) -> RenderableType:
    """One row for each problem; without any, what was checked."""
    checked = f"{count(found['pipelines'], 'pipeline')}, {count(found['clusters'], 'cluster')}"
    if found["checked_at"] is not None:
        checked += f", checked {ago(found['checked_at'])}"
    missing = [f"Not verified: {name} cannot be observed now." for name in found["unverified"]]
    if not found["items"]:
        return Text("\n".join([f"No open problems · {checked}", *missing]), style="yellow" if missing else "green")
    rows = table(
        ("WHERE", "PROBLEM", "SINCE"),
        (
            (
                Text(one["pipeline"] or one["cluster"], style="red" if one["severity"] in _GRAVE else "yellow"),
                one["sentence"] + (f" Next step: {one['next_step']}." if one["next_step"] else ""),
                ago(one["since"]) if one["since"] else "",
            )
            for one in found["items"]
        ),
        empty="",
    )
    return Group(rows, Text("\n".join([checked, *missing]), style="dim"))
