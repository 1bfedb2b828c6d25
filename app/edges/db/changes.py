"""Wake readers when data of a page was committed, by any server: LISTEN on a connection of its own.

A notice is a hint, never the data: its readers read the tables again. After a lost connection the missed notices are
unknown, so all readers are woken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import psycopg
from sqlalchemy import make_url

from app.edges.db.keep_alive import lasting_conninfo
from app.kit.back_off import BackOff
from app.kit.db.connection import answer_in_time
from app.kit.db.unit_of_work import CHANNEL

EVERYTHING = "*:*"
BACK_OFF = BackOff(0.2, 5.0)
_log = logging.getLogger(__name__)


class ChangeSubscription:
    """One reader's view of the feed. Notices between two calls are combined into one, by noun and name."""

    def __init__(self, wants: Callable[[str], bool]) -> None:
        self._wants = wants
        self._changed = asyncio.Event()
        self._notices: set[str] = set()

    def tell(self, notice: str) -> None:
        if notice == EVERYTHING or self._wants(notice):
            self._notices.add(notice)
            self._changed.set()

    async def wait(self, *, timeout_s: float) -> bool:
        """Wait for a change since the last call; False if none came in time. Many changes count as one."""
        return bool(await self.changes(timeout_s=timeout_s))

    async def changes(self, *, timeout_s: float) -> frozenset[str]:
        """The notices (`run:<id>`, `pipeline:<name>`, `*:*`) since the last call; empty when none came in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()
        notices, self._notices = frozenset(self._notices), set()
        return notices


class ChangeFeed:
    """`run` listens until it is cancelled; `subscribe` gives a reader its view. One for each process is enough."""

    def __init__(self, database_url: str) -> None:
        url = make_url(database_url)
        self._conninfo = lasting_conninfo(url, application_name="fenceline changes")
        self._where = f"{url.host or 'localhost'}:{url.port or 5432}"
        self._subscriptions: set[ChangeSubscription] = set()
        self.is_listening = False

    @asynccontextmanager
    async def subscribe(self, wants: Callable[[str], bool] = lambda _: True) -> AsyncGenerator[ChangeSubscription]:
        """Notices from now on, for as long as the context is open. `wants` selects by `<noun>:<name>`."""
        subscription = ChangeSubscription(wants)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    async def run(self) -> None:
        """Listen, and listen again after every loss, with growing pauses; ends only by being cancelled."""
        failures = 0
        while True:
            pause_s = BACK_OFF.wait_s(failures + 1)
            try:
                async with await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True) as connection:
                    async with answer_in_time():
                        await connection.execute(f"LISTEN {CHANNEL}")
                    self.is_listening = True
                    failures, pause_s = 0, BACK_OFF.first_s
                    self._tell(EVERYTHING)
                    async for notice in connection.notifies():
                        self._tell(notice.payload)
            except (psycopg.Error, OSError) as error:
                _log.warning(
                    "the change feed lost Postgres at %s (%s); next try in %.1f s", self._where, error, pause_s
                )
            finally:
                self.is_listening = False
            await asyncio.sleep(pause_s)
            failures += 1

    def announce(self, notice: str) -> None:
        """Notify the readers of this server only, of changes that every server observes itself."""
        self._tell(notice)

    def _tell(self, notice: str) -> None:
        for subscription in self._subscriptions:
            subscription.tell(notice)
