"""Commands that ask brokers directly, without a Fenceline server, for unregistered clusters."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from app.core.clusters.cluster_entry import check_cluster
from app.edges.kafka.connections import BOOTSTRAP
from app.kit.cli.client import settings_or_exit
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.meanwhile import saying_that_it_waits
from app.kit.errors import FencelineError

if TYPE_CHECKING:
    from app.edges.kafka.admin import KafkaBrokers

T = TypeVar("T")

BootstrapServer = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Ask these brokers, without a server; several separated by commas."),
]
ClientConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", help="A librdkafka security setting for these brokers, KEY=VALUE; secrets as env:… or file:…"
    ),
]

_EXIT_CODES = {400: ExitCode.INVALID, 403: ExitCode.NOT_ALLOWED, 422: ExitCode.INVALID, 503: ExitCode.UNREACHABLE}


def connection_of(bootstrap_server: str, config: list[str] | None) -> dict[str, str]:
    """Return the cluster of the options. Raises CommandError with all of their errors."""
    client_config: dict[str, str] = {}
    for pair in config or []:
        key, is_pair, value = pair.partition("=")
        if not is_pair:
            raise CommandError(f"--config {pair}: expected KEY=VALUE", code=ExitCode.USAGE)
        client_config[key] = value
    # The user may connect to any typed address: the list of allowed brokers is the server's.
    problems = check_cluster(
        name="direct", bootstrap_servers=bootstrap_server, client_config=client_config, allowed_addresses=("*",)
    )
    if problems:
        raise CommandError(
            "the cluster's options are not valid:",
            code=ExitCode.USAGE,
            lines=tuple(f"{problem.field}: {problem.message}" for problem in problems),
        )
    return {**client_config, BOOTSTRAP: bootstrap_server}


def ask(question: Callable[[KafkaBrokers], Awaitable[T]]) -> T:
    """Return the brokers' answer; every Fenceline error becomes a CommandError."""
    # Imported here, as only commands without a server need the Kafka clients.
    from app.edges.kafka.admin import KafkaBrokers

    settings = settings_or_exit()

    async def asked() -> T:
        brokers = KafkaBrokers(environment=os.environ, secrets_dir=settings.secrets_dir)
        try:
            return await question(brokers)
        finally:
            await brokers.close()

    return answered(lambda: asyncio.run(asked()))


def answered(question: Callable[[], T]) -> T:
    """Return the result of a question; Fenceline errors become CommandErrors. Reports that it waits."""
    try:
        with saying_that_it_waits("the brokers"):
            return question()
    except FencelineError as error:
        raise CommandError(error.message, code=_EXIT_CODES.get(error.status, ExitCode.FAILED)) from error
