"""Which cluster these commands ask, and how."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from app.core.blocked.diagnosis import Asked
from app.core.clocks.broker_clocks import SAME_WITHIN_MS, BrokerClocks
from app.edges.kafka.cli.direct import answered, connection_of
from app.edges.kafka.connections import resolve
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.edges.kafka.transactions.journals import measure_clocks
from app.kit.cli.client import settings_or_exit
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.errors import UnavailableError

T = TypeVar("T")
_CLOCKS_FOR_S = 60.0

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


class DirectClocks:
    """The brokers' clocks beside ours, measured anew once a minute while somebody watches."""

    def __init__(self, resolved: Mapping[str, str], *, timeout_s: float) -> None:
        self._resolved = resolved
        self._timeout_s = timeout_s
        self._measured = BrokerClocks()
        self._measured_s: float | None = None

    def measured(self) -> BrokerClocks:
        """As of the last minute; without the clocks that could not be measured. Raises nothing."""
        if self._measured_s is None or time.monotonic() - self._measured_s > _CLOCKS_FOR_S:
            try:
                self._measured = measure_clocks(self._resolved, timeout_s=self._timeout_s, now_ms=now_ms)
            except UnavailableError:
                self._measured = BrokerClocks()
            self._measured_s = time.monotonic()
        return self._measured

    @property
    def remark(self) -> str:
        """By which clocks the times are, where they are not simply ours."""
        clocks = self._measured
        apart = [
            f"broker {broker}'s clock is {offset.distance}"
            for broker, offset in sorted(clocks.offsets.items())
            if abs(offset.middle_ms) >= SAME_WITHIN_MS
        ]
        unknown = sorted(set(clocks.leaders.values()) - set(clocks.offsets))
        if unknown or not clocks.leaders:
            named = f" of broker {', '.join(map(str, unknown))}" if unknown else ""
            apart.append(f"times{named} are by its own clock, which only an open transaction lets us measure")
        return "; ".join(apart)
