"""`fenceline verify`: search a pipeline's offset log for contradictions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.kit.cli.client import as_record, connect
from app.kit.cli.errors import ExitCode
from app.kit.cli.moments import moment_option
from app.kit.cli.names import PipelineName
from app.kit.cli.output import AsJson, present, table
from app.kit.words import number
from app.products.offset_log.check import OffsetFinding, OffsetSide
from app.products.offset_log.verdict import OffsetLogStanding

_STYLES = {
    OffsetLogStanding.CONSISTENT: "green",
    OffsetLogStanding.CANNOT_TELL: "yellow",
    OffsetLogStanding.CONTRADICTED: "bold red",
}


def verify(
    pipeline: PipelineName,
    since: Annotated[
        str | None,
        typer.Option(metavar="90m|24h|7d|TIME", help="Start of the range; by default all that is kept, 14 days."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Search the offset log for contradictions: gaps, overlaps, commits without ownership, rewinds.

    Exit code 0 if consistent, 1 if contradicted, 6 if events are missing and the range cannot be verified.
    """
    moment = None if since is None else moment_option(since, "--since", now=datetime.now(UTC))
    found = connect().get(
        f"/pipelines/{pipeline}/offset-log/check", since=None if moment is None else moment.isoformat()
    )
    present(lambda: found, lambda check: rendered(pipeline, check), as_json=as_json)
    match found["standing"]:
        case OffsetLogStanding.CONSISTENT:
            return
        case OffsetLogStanding.CONTRADICTED:
            raise typer.Exit(ExitCode.FAILED)
        case _:
            raise typer.Exit(ExitCode.CANNOT_TELL)


def rendered(pipeline: str, found: Any) -> RenderableType:
    standing = None if found["standing"] is None else OffsetLogStanding(found["standing"])
    if standing is None:
        return Text(
            f"{pipeline} has no offset events in this range. Pipelines with at_least_once do not record any.",
            style="yellow",
        )
    findings = [as_record(one, OffsetFinding) for partition in found["partitions"] for one in partition["findings"]]
    doubts = [f"{one['topic']}-{one['partition']}: {doubt}" for one in found["partitions"] for doubt in one["doubts"]]
    total = sum(one["contradictions"] for one in found["partitions"])
    figures = found["figures"]
    said = {
        OffsetLogStanding.CONSISTENT: "consistent: no contradiction, no missing events",
        OffsetLogStanding.CANNOT_TELL: "cannot be verified: no contradiction, but events are missing",
        OffsetLogStanding.CONTRADICTED: "contradicted once" if total == 1 else f"contradicted {number(total)} times",
    }[standing]
    parts: list[RenderableType] = [Text(f"{pipeline}: {said}", style=_STYLES[standing])]
    for finding in findings:
        parts += [
            Text(""),
            Text(f"{finding.topic}-{finding.partition}  {finding.kind}  {finding.message}", style="red"),
            table(
                ("TASK", "LEASE#", "ATTEMPT#", "HOST", "NUMBER#", "TIME", "EVENT"),
                (_side(side) for side in finding.sides),
                empty="no events kept",
            ),
        ]
    if total > len(findings):
        parts.append(Text(f"and {number(total - len(findings))} more, between those shown", style="red"))
    parts += [Text(f"cannot be verified: {doubt}", style="yellow") for doubt in doubts]
    count = len(found["partitions"])
    parts.append(
        Text(
            f"{number(count)} partition{'' if count == 1 else 's'}, "
            f"{number(figures['committed'])} checkpoints committed, "
            f"{number(figures['aborted'])} aborted, {number(figures['unknown'])} of unknown outcome",
            style="dim",
        )
    )
    return Group(*parts)


def _side(side: OffsetSide) -> tuple[str | None, ...]:
    at = None if side.at is None else side.at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return (
        f"{side.ordinal}.{side.task}",
        str(side.lease),
        str(side.attempt),
        side.host,
        str(side.event.index),
        at,
        side.said,
    )
