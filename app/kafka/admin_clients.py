"""Admin clients of librdkafka: one per cluster configuration, kept for the next question, closed when idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from app.domain.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.domain.errors import BrokerUnreachableError, InvalidError
from app.kafka import handshake
from app.kafka.attempt import Attempt
from app.kafka.connections import BOOTSTRAP

K = TypeVar("K")
V = TypeVar("V")

_KEEP_IDLE_S = 300.0
_SETTINGS: dict[str, str | int | float | bool] = {
    "client.id": "fenceline-server",
    # Every refused connection is a line on stderr otherwise; its reason reaches us by the error callback.
    "log_level": 0,
    # A broker that comes back must be found within one question's time; the default waits for up to 10 s.
    "reconnect.backoff.max.ms": 500,
    **NEVER_CREATE_TOPICS,
}


class _LastFailure:
    """Why a client last failed to connect."""

    def __init__(self) -> None:
        self.at = 0.0
        self.reason = ""

    def note(self, error: KafkaError) -> None:
        # "All brokers are down" follows the error that says why.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - librdkafka's public name begins so
            self.at, self.reason = time.monotonic(), error.str()


class Admin:
    """One client, who uses it, and why it last failed to connect."""

    def __init__(self, resolved: Mapping[str, str]) -> None:
        self.users = 0
        self.idle_since = time.monotonic()
        self._last_failure = _LastFailure()
        settings: dict[str, Any] = {**resolved, **_SETTINGS, "error_cb": self._last_failure.note}
        # Its methods say nothing of what their futures hold: who calls one says it.
        self.client: Any = AdminClient(settings)

    def close(self) -> None:
        """Ends its threads, and what it is still asked; may wait for them.

        Not left to the garbage collector: it may run on the thread on which librdkafka tells a late answer, and a
        client that is destroyed on a thread of its own ends the process (SIGABRT).
        """
        self.client.__exit__(None, None, None)

    def connection_error(self, attempt: Attempt) -> str | None:
        """The reason of a failure to connect since the attempt began, if there was one."""
        self.client.poll(0)
        return self._last_failure.reason if self._last_failure.at >= attempt.started else None

    async def answers(self, attempt: Attempt, what: str, futures: Mapping[K, Future[V]]) -> dict[K, V | KafkaError]:
        """What each future came to; a refusal of one is an answer, an unreachable cluster is raised.

        The futures are resolved by librdkafka's own thread: none of ours waits with them.
        """
        waiting = {key: asyncio.wrap_future(future) for key, future in futures.items()}
        if not waiting:
            return {}
        _, late = await asyncio.wait(waiting.values(), timeout=attempt.left_s)
        for future in late:
            future.cancel()
        if late:
            raise attempt.unreachable(self.connection_error(attempt) or "no answer in time")
        found: dict[K, V | KafkaError] = {}
        unreachable: KafkaError | None = None
        for key, future in waiting.items():
            error = future.exception()
            if error is None:
                found[key] = future.result()
            elif isinstance(error, KafkaException):
                found[key] = refusal = error_of(error)
                unreachable = unreachable or (refusal if attempt.means_unreachable(refusal) else None)
            else:
                raise error
        if unreachable is not None:
            raise attempt.failure(what, unreachable, connection_error=self.connection_error(attempt))
        return found


def error_of(exception: KafkaException) -> KafkaError:
    """librdkafka's error inside its exception."""
    error = exception.args[0]
    assert isinstance(error, KafkaError)  # noqa: S101 - the binding raises it with nothing else
    return error


class AdminClients:
    """The clients in use and those kept for the next question; belongs to one event loop."""

    def __init__(self) -> None:
        self._kept: dict[frozenset[tuple[str, str]], Admin] = {}
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def borrow(self, resolved: Mapping[str, str]) -> AsyncGenerator[Admin]:
        """The client of this configuration, made if need be.

        Raises InvalidError when librdkafka refuses the settings.
        """
        key = frozenset(resolved.items())
        async with self._opening:
            await self._close_idle()
            admin = self._kept.get(key)
            if admin is None:
                try:
                    admin = await asyncio.to_thread(Admin, resolved)
                except KafkaException as error:
                    why = error_of(error).str()
                    raise InvalidError(
                        f"the Kafka client refuses the settings for {resolved[BOOTSTRAP]}: {why}", field="client_config"
                    ) from error
                self._kept[key] = admin
        admin.users += 1
        # What happened between two questions is no reason for the failure of this one.
        admin.client.poll(0)
        try:
            yield admin
        except BrokerUnreachableError as error:
            if "certificate" not in error.error:
                raise
            why = await asyncio.to_thread(handshake.problem, resolved, seen=error.error)
            raise BrokerUnreachableError(error.address, why or error.error, error.tried_s) from error
        finally:
            admin.users -= 1
            admin.idle_since = time.monotonic()
            if admin.users == 0 and self._kept.get(key) is not admin:
                await asyncio.to_thread(admin.close)

    async def close(self) -> None:
        """Let all go; whoever still uses one keeps it until done."""
        unused = [admin for admin in self._kept.values() if admin.users == 0]
        self._kept.clear()
        await _close(unused)

    async def _close_idle(self) -> None:
        oldest = time.monotonic() - _KEEP_IDLE_S
        idle = [key for key, admin in self._kept.items() if admin.users == 0 and admin.idle_since < oldest]
        if idle:
            await _close([self._kept.pop(key) for key in idle])


async def _close(admins: list[Admin]) -> None:
    """Waits for their threads: not on the event loop."""
    await asyncio.gather(*(asyncio.to_thread(admin.close) for admin in admins))
