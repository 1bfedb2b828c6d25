"""Which cluster these commands ask, and how."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from app.cli.client import settings_or_exit
from app.cli.direct import answered, connection_of
from app.cli.errors import CommandError, ExitCode
from app.domain.stuck.diagnosis import Asked
from app.kafka.connections import resolve
from app.kafka.transactions.brokers import KafkaTransactions

T = TypeVar("T")

Within = Annotated[float, typer.Option(min=1, metavar="SECONDS", help="How long a journal may take to read.")]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class DirectCluster:
    """The cluster that the options name."""

    def __init__(self, bootstrap_server: str | None, config: list[str] | None) -> None:
        if bootstrap_server is None:
            raise CommandError("name the cluster: --bootstrap-server HOST:PORT", code=ExitCode.USAGE)
        self.bootstrap_server = bootstrap_server
        self.connection = connection_of(bootstrap_server, config)
        self._secrets_dir = settings_or_exit().secrets_dir
        self.brokers = KafkaTransactions(environment=os.environ, secrets_dir=self._secrets_dir)

    async def asked(self, _: Collection[str]) -> Asked:
        """This command, at this moment. Whose the ids are, only a server of ours would know."""
        return Asked(bootstrap_servers=self.bootstrap_server, now_ms=now_ms())

    def run(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer; every error of ours becomes a CommandError."""
        return answered(lambda: asyncio.run(question()))

    def resolved(self) -> dict[str, str]:
        """The connection with its secrets."""
        return answered(lambda: resolve(self.connection, environment=os.environ, secrets_dir=self._secrets_dir))


def as_document(value: Any) -> Any:
    """A record of ours as JSON has it."""
    return msgspec.to_builtins(value)
