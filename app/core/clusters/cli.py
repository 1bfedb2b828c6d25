"""`fenceline clusters`: the Kafka clusters that pipelines may name."""

from __future__ import annotations

from typing import Annotated

import typer

from app.core.clusters.cluster import Cluster
from app.kit.cli.client import connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.listing import show_list
from app.kit.cli.meanwhile import saying_that_it_waits
from app.kit.cli.names import ClusterName
from app.kit.cli.output import AsJson, Why, Yes, ago, confirm_or_exit, console, print_json, say, table

app = typer.Typer(help="Kafka clusters that pipelines may name.", no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List all registered clusters."""
    client = connect()
    show_list(
        lambda: client.get("/clusters")["items"],
        ("NAME", "BOOTSTRAP SERVERS", "CLUSTER ID", "REGISTERED"),
        lambda c: (c.name, c.bootstrap_servers, c.kafka_cluster_id, f"{ago(c.created_at)} by {c.created_by}"),
        record=Cluster,
        empty="No cluster yet: fenceline clusters register NAME --bootstrap-servers HOST:PORT",
        as_json=as_json,
    )


@app.command()
def register(
    name: str,
    bootstrap_servers: Annotated[str, typer.Option(help="As HOST:PORT, several separated by commas.")],
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", help="A librdkafka security setting, KEY=VALUE; secrets as env:… or file:…"),
    ] = None,
    why: Why = None,
    as_json: AsJson = False,
) -> None:
    """Register a cluster; its brokers must answer now."""
    client_config: dict[str, str] = {}
    for pair in config or []:
        key, is_pair, value = pair.partition("=")
        if not is_pair:
            raise CommandError(f"--config {pair}: expected KEY=VALUE", code=ExitCode.USAGE)
        client_config[key] = value
    body = {"name": name, "bootstrap_servers": bootstrap_servers, "client_config": client_config, "why": why}
    with saying_that_it_waits(f"the brokers at {bootstrap_servers}"):
        item = connect().post("/clusters", body)
    if as_json:
        print_json(item)
    else:
        say(f"registered {name}; its cluster id is {item['kafka_cluster_id']}")


@app.command()
def probe(name: ClusterName, as_json: AsJson = False) -> None:
    """Ask the cluster's brokers for its id and addresses now."""
    with saying_that_it_waits(f"the brokers of {name}"):
        item = connect().post(f"/clusters/{name}/probe")
    if as_json:
        print_json(item)
        return
    say(f"{name} answers; its cluster id is {item['cluster_id']}")
    console.print(
        table(
            ("BROKER#", "ADVERTISED ADDRESS"),
            ((str(b["id"]), f"{b['host']}:{b['port']}") for b in item["brokers"]),
            empty="It has no brokers.",
        )
    )


@app.command()
def remove(name: ClusterName, why: Why = None, yes: Yes = False) -> None:
    """Remove a cluster that no pipeline names. Nothing in Kafka changes."""
    confirm_or_exit(f"Remove the cluster {name}?", is_confirmed=yes)
    connect().delete(f"/clusters/{name}", why=why)
    say(f"removed {name}")
