"""`fenceline webhooks`: the receivers of alerts, and their deliveries."""

from __future__ import annotations

import base64
import secrets
from typing import Annotated, Any

import typer

from app.core.alerts.alert import AlertKind
from app.core.alerts.webhook import Delivery
from app.kit.cli.client import connect
from app.kit.cli.listing import show_list
from app.kit.cli.names import names_of
from app.kit.cli.output import AsJson, Why, Yes, ago, confirm_or_exit, print_json, say, state
from app.products.webhooks.signature import PREFIX

app = typer.Typer(help="Webhooks: the receivers of signed alerts, and their deliveries.", no_args_is_help=True)
WebhookName = Annotated[str, typer.Argument(metavar="WEBHOOK", autocompletion=names_of("webhooks"))]
Secret = Annotated[
    list[str] | None,
    typer.Option("--secret", "-s", help="env:FENCELINE_SECRET_… or file:…; two during a change of secrets."),
]
Kind = Annotated[list[AlertKind] | None, typer.Option("--kind", "-k", help="Kinds of alerts to send; none: all.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List all webhooks."""
    client = connect()
    show_list(
        lambda: client.get("/webhooks")["items"],
        ("NAME", "ADDRESS", "ALERTS", "PENDING#", "DELIVERED#", "NOT DELIVERED#", "STATE"),
        lambda one: (
            one["name"],
            one["address"],
            ", ".join(one["kinds"]) or "all",
            str(one["pending"]),
            str(one["delivered"]),
            str(one["given_up"]),
            f"paused: {one['pause_reason']}" if one["paused_at"] else "active",
        ),
        record=dict[str, Any],
        empty="No webhook yet: fenceline webhooks add NAME --url URL --secret env:FENCELINE_SECRET_…",
        as_json=as_json,
    )


@app.command()
def add(
    name: str,
    url: Annotated[str, typer.Option(help="The address; the server's settings must allow its host.")],
    secret: Secret = None,
    kind: Kind = None,
    why: Why = None,
    as_json: AsJson = False,
) -> None:
    """Add a webhook; it gets alerts from now on."""
    body = {"name": name, "url": url, "secrets": secret or [], "kinds": kind or [], "why": why}
    item = connect().post("/webhooks", body)
    if as_json:
        print_json(item)
    else:
        say(f"added {name}; try it: fenceline webhooks test {name}")


@app.command()
def change(
    name: WebhookName,
    url: Annotated[str | None, typer.Option(help="The new address.")] = None,
    secret: Secret = None,
    kind: Kind = None,
    all_kinds: Annotated[bool, typer.Option("--all-kinds", help="Send every kind of alert.")] = False,
    why: Why = None,
    as_json: AsJson = False,
) -> None:
    """Change its address, secrets or kinds; options that are not given stay."""
    client = connect()
    before = client.get(f"/webhooks/{name}")
    body: dict[str, Any] = {
        "url": url or before["address"],
        "secrets": secret or before["secrets"],
        "kinds": [] if all_kinds else kind or before["kinds"],
        "why": why,
    }
    item = client.put(f"/webhooks/{name}", body)
    if as_json:
        print_json(item)
    else:
        say(f"changed {name}")


@app.command()
def remove(name: WebhookName, why: Why = None, yes: Yes = False) -> None:
    """Remove a webhook with its pending deliveries."""
    confirm_or_exit(f"Remove the webhook {name} with its pending deliveries?", is_confirmed=yes)
    connect().delete(f"/webhooks/{name}", why=why)
    say(f"removed {name}")


@app.command()
def pause(name: WebhookName, why: Why = None) -> None:
    """Send nothing until it is resumed; new deliveries stay pending."""
    connect().post(f"/webhooks/{name}/pause", {"why": why})
    say(f"paused {name}")


@app.command()
def resume(name: WebhookName, why: Why = None) -> None:
    """Send again, the oldest deliveries first."""
    connect().post(f"/webhooks/{name}/resume", {"why": why})
    say(f"resumed {name}")


@app.command("test")
def send_test(name: WebhookName, why: Why = None) -> None:
    """Send a test delivery."""
    connect().post(f"/webhooks/{name}/test", {"why": why})
    say(f"the test is pending; fenceline webhooks deliveries {name} shows the answer of {name}")


@app.command()
def deliveries(
    name: WebhookName,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of deliveries, newest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List its deliveries with the receiver's answers."""
    client = connect()
    show_list(
        lambda: client.items(f"/webhooks/{name}/deliveries", limit=limit),
        ("CREATED", "ALERT", "STATE", "ATTEMPTS#", "ANSWER", "ID"),
        lambda one: (
            ago(one.written_at),
            one.type,
            state(one.state),
            str(one.attempts),
            one.error or (str(one.answer_status) if one.answer_status else "–"),
            one.id,
        ),
        record=Delivery,
        empty="No deliveries yet.",
        as_json=as_json,
    )


@app.command()
def secret() -> None:
    """Print a new secret for signatures; put it in a file or a variable that the server reads."""
    typer.echo(PREFIX + base64.b64encode(secrets.token_bytes(32)).decode())
