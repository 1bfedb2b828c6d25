"""`fenceline stuck`: why a group, or the consumers of a topic or partition, do not advance."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.blocked.chain import clause
from app.core.blocked.diagnosis import AdviceVerdict, ChainLink, Diagnosis, DiagnosisKind, Explanation
from app.core.blocked.readers import BlockedReport
from app.edges.kafka.cli.cluster import as_document, now_ms
from app.edges.kafka.cli.direct import BootstrapServer, ClientConfig
from app.kit.cli.output import AsJson, Watch, present
from app.kit.words import count, duration
from app.products.direct import hanging
from app.products.direct.operations import RegisteredCluster, operations_of

_STYLES = {
    AdviceVerdict.END: "red",
    AdviceVerdict.FENCE: "red",
    AdviceVerdict.OWNER: "yellow",
    AdviceVerdict.WAIT: "yellow",
    AdviceVerdict.NO_MEMBERS: "yellow",
    AdviceVerdict.BEHIND: "yellow",
    AdviceVerdict.CANNOT_TELL: "magenta",
    AdviceVerdict.UNSETTLED: "cyan",
    AdviceVerdict.ONLY_MARKERS: "green",
    AdviceVerdict.FREE: "green",
}
_QUIET = (AdviceVerdict.ONLY_MARKERS, AdviceVerdict.FREE)


def stuck(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[GROUP|TOPIC[:PARTITION]]",
            help="The blocked group, topic or partition. Without it: all blocked readers of the cluster.",
        ),
    ] = None,
    *,
    kind: Annotated[
        DiagnosisKind | None,
        typer.Option("--as", help="The kind of TARGET, if a group and a topic have the same name."),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    cluster: RegisteredCluster = None,
    as_json: AsJson = False,
    watch_it: Watch = False,
) -> None:
    """Diagnose blocked consumers: the open transaction, its owner, its end, and the recommended action."""
    operations = operations_of(bootstrap_server, config, cluster)
    if target is None:
        present(
            lambda: (operations.blocked(), operations.hanging()),
            lambda found: Group(blocked(found[0], now_ms()), hanging.rendered(found[1])),
            as_json=as_json,
            watch_it=watch_it,
            document=lambda found: {"blocked": as_document(found[0]), **as_document(found[1])},
        )
        return
    present(
        lambda: operations.explain(target, kind),
        lambda found: chain(found, now_ms()),
        as_json=as_json,
        watch_it=watch_it,
        document=lambda found: {"looked_at_ms": now_ms(), **as_document(found)},
    )


def blocked(found: BlockedReport, at_ms: int) -> RenderableType:
    """Show each transaction that blocks readers: who, since when, by whom, and what to do."""
    parts: list[RenderableType] = []
    if not found.causes:
        is_known = found.at_ms >= 0 and not found.problem
        parts.append(
            Text("No blocked readers.", style="green")
            if is_known
            else Text(f"Blocked readers are not known: {found.problem or 'not checked yet'}", style="magenta")
        )
    for one in found.causes:
        parts.append(Text(one.sentence, style="bold"))
        owner = f", {one.owner}" if one.owner else ""
        ends = "no timeout" if one.until_ms is None else f"times out in {duration(max(0, one.until_ms - at_ms))}"
        parts.append(
            Text(
                f"  for {duration(at_ms - one.since_ms)}; producer {one.producer_id}, epoch {one.producer_epoch}"
                f"{owner}; {ends}"
            )
        )
        if one.groups:
            parts.append(Text(f"  waiting: {', '.join(group.group for group in one.groups)}"))
        parts.append(Text.assemble("  ", (one.verdict.label, _STYLES[one.verdict]), f": {one.advice}"))
    if found.causes and found.problem:
        parts.append(Text(f"As last known: {found.problem}", style="magenta"))
    if found.left_out:
        parts.append(Text(f"{count(found.left_out, 'partition')} not examined", style="magenta"))
    return Group(*parts)


def chain(found: Explanation, at_ms: int) -> RenderableType:
    """Show the chains that require attention, and count the others."""
    noisy = [one for one in found.partitions if one.verdict not in _QUIET]
    quiet = [one for one in found.partitions if one.verdict in _QUIET]
    parts: list[RenderableType] = []
    if len(found.partitions) != 1:
        parts.append(Text(found.headline, style="bold"))
    parts += [_link(link, at_ms) for link in found.links]
    parts += [_told(one, at_ms) for one in noisy]
    if len(found.partitions) == 1:
        parts += [_told(one, at_ms) for one in quiet]
    elif quiet and noisy:
        parts.append(Text(f"{count(len(quiet), 'other partition')} not blocked.", style="dim"))
    return Group(*parts)


def _told(one: Diagnosis, at_ms: int) -> RenderableType:
    lines: list[RenderableType] = [Text(one.headline, style="bold")]
    lines += [_link(link, at_ms) for link in one.links]
    lines.append(Text.assemble("  ", (one.verdict.label, _STYLES[one.verdict]), f": {one.advice}"))
    # Never wrapped, for copying.
    lines += [Text(f"  {command}", style="cyan", no_wrap=True, overflow="ignore") for command in one.commands]
    return Group(*lines)


def _link(link: ChainLink, at_ms: int) -> Text:
    said = Text(f"  {clause(link)}  ")
    said.append(f"{link.source}, {duration(at_ms - link.seen_ms)} ago", style="dim")
    return said
