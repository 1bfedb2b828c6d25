"""`fenceline fence` and `fenceline end`: a plan, and its execution with --execute."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.blocked.ending import EndingPlan
from app.edges.kafka.cli.cluster import as_document
from app.edges.kafka.cli.direct import BootstrapServer, ClientConfig
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.output import AsJson, Why, Yes, confirm_or_exit, console, print_json, say
from app.products.direct.operations import RegisteredCluster, operations_of

Execute = Annotated[bool, typer.Option("--execute", help="Execute the plan; without it, the plan is only shown.")]
Force = Annotated[bool, typer.Option("--force", help="Execute it despite objections; requires --why.")]


def fence(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")],
    *,
    execute: Execute = False,
    force: Force = False,
    why: Why = None,
    yes: Yes = False,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    cluster: RegisteredCluster = None,
    as_json: AsJson = False,
) -> None:
    """Abort the open transaction of a transactional id, and fence its producer (InitProducerId)."""
    operations = operations_of(bootstrap_server, config, cluster)
    plan = operations.plan_fence(transactional_id)
    if not _may_begin(plan, execute=execute, force=force, why=why, as_json=as_json):
        return
    confirm_or_exit(f"Fence {transactional_id}?", is_confirmed=yes)
    done = operations.fence(transactional_id, force=force, why=why)
    if as_json:
        print_json({"is_done": True, "why": why, **as_document(done)})
        return
    state = f"; its coordinator reports {done.state}" if done.state else ""
    say(f"fenced {transactional_id}: now at producer {done.producer_id}, epoch {done.producer_epoch}{state}")


def end(
    topic: str,
    partition: Annotated[int, typer.Argument(min=0)],
    *,
    start_offset: Annotated[
        int | None,
        typer.Option(min=0, help="The transaction's first offset; by default the one that blocks consumers."),
    ] = None,
    execute: Execute = False,
    force: Force = False,
    why: Why = None,
    yes: Yes = False,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    cluster: RegisteredCluster = None,
    as_json: AsJson = False,
) -> None:
    """Abort a hanging transaction in one partition by an abort marker (WriteTxnMarkers)."""
    operations = operations_of(bootstrap_server, config, cluster)
    plan = operations.plan_end(topic, partition, start_offset)
    if not _may_begin(plan, execute=execute, force=force, why=why, as_json=as_json):
        return
    confirm_or_exit(f"End it in {topic}-{partition}?", is_confirmed=yes)
    done = operations.end(topic, partition, plan, force=force, why=why)
    if as_json:
        print_json({"is_done": True, "why": why, **as_document(done)})
        return
    say(f"ended it in {topic}-{partition}. {done.after.headline}")


def _may_begin(plan: EndingPlan, *, execute: bool, force: bool, why: str | None, as_json: bool) -> bool:
    """Show the plan, and return whether to execute it. Raises CommandError if it is refused."""
    if force and not (why or "").strip():
        raise CommandError("--force needs a reason: --why TEXT", code=ExitCode.USAGE)
    refusal = plan.refusal(force=force)
    if not execute and as_json:
        print_json({"is_done": False, "refusal": refusal, "plan": as_document(plan)})
        return False
    if not as_json:
        console.print(_shown(plan))
    if refusal is not None:
        way_out = () if plan.impossible else ("--force --why TEXT overrides the objections",)
        raise CommandError(f"refused: {refusal}", lines=way_out)
    if not execute:
        say("nothing was changed; --execute executes the plan")
    return execute


def _shown(plan: EndingPlan) -> RenderableType:
    lines: list[Any] = [Text(plan.what, style="bold")]
    lines += [Text.assemble("  lost: ", (loss, "yellow")) for loss in plan.losses]
    lines += [Text.assemble("  objection: ", (objection, "red")) for objection in plan.objections]
    if plan.command:
        lines.append(Text(f"  {plan.command}", style="cyan", no_wrap=True, overflow="ignore"))
    return Group(*lines)
