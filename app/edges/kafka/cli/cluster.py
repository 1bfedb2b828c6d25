"""The cluster of a command, with its access."""

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

Within = Annotated[float, typer.Option(min=1, metavar="SECONDS", help="The time limit for reading a journal.")]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class DirectCluster:
    """Return the cluster that the options name."""

    def __init__(self, bootstrap_server: str | None, config: list[str] | None) -> None:
        if bootstrap_server is None:
            raise CommandError("name the cluster: --bootstrap-server HOST:PORT", code=ExitCode.USAGE)
        self.bootstrap_server = bootstrap_server
        self.connection = connection_of(bootstrap_server, config)
        self._secrets_dir = settings_or_exit().secrets_dir
        self.brokers = KafkaTransactions(environment=os.environ, secrets_dir=self._secrets_dir)

    async def asked(self, _: Collection[str]) -> Asked:
        """This command at this moment. The owners of ids are known to a Fenceline server only."""
        return Asked(bootstrap_servers=self.bootstrap_server, now_ms=now_ms())

    def run(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the answer; every Fenceline error becomes a CommandError."""
        return answered(lambda: asyncio.run(question()))

    def resolved(self) -> dict[str, str]:
        """The connection with its secrets."""
        return answered(lambda: resolve(self.connection, environment=os.environ, secrets_dir=self._secrets_dir))


def as_document(value: Any) -> Any:
    """Convert a record to JSON data."""
    return msgspec.to_builtins(value)


class DirectClocks:
    """The offsets of the brokers' clocks, measured again once a minute for a watching command."""

    def __init__(self, resolved: Mapping[str, str], *, timeout_s: float) -> None:
        self._resolved = resolved
        self._timeout_s = timeout_s
        self._measured = BrokerClocks()
        self._measured_s: float | None = None

    def measured(self) -> BrokerClocks:
        """Return the newest measurement, without clocks that could not be measured. Raises nothing."""
        if self._measured_s is None or time.monotonic() - self._measured_s > _CLOCKS_FOR_S:
            try:
                self._measured = measure_clocks(self._resolved, timeout_s=self._timeout_s, now_ms=now_ms)
            except UnavailableError:
                self._measured = BrokerClocks()
            self._measured_s = time.monotonic()
        return self._measured

    @property
    def remark(self) -> str:
        """Name the clocks of the times, if they differ from this machine's."""
        clocks = self._measured
        apart = [
            f"broker {broker}'s clock is {offset.distance}"
            for broker, offset in sorted(clocks.offsets.items())
            if abs(offset.middle_ms) >= SAME_WITHIN_MS
        ]
        unknown = sorted(set(clocks.leaders.values()) - set(clocks.offsets))
        if unknown or not clocks.leaders:
            named = f" of broker {', '.join(map(str, unknown))}" if unknown else ""
            apart.append(f"times{named} are by its own clock, measurable only with an open transaction")
        return "; ".join(apart)
