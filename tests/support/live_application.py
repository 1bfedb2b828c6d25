"""The users' application on a real socket, without the loops of a server: so what is in its database stays as it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from app.core.wiring import Wiring
from app.edges.db import migrations
from app.edges.main.users_app import create_users_app
from app.kit.access import Role
from app.kit.web.connection_limit import limits_of_process
from app.kit.web.listeners import Listener, address_of, bind
from tests.support.waiting import wait_for
from tests.support.wiring import settings_for_test, token_of, wired

_DEADLINE_S = 30.0
Made = TypeVar("Made")


class LiveApplication:
    """Serves in a thread of its own until `stop`. `url` and an administrator's `token` are there once it is served."""

    def __init__(self) -> None:
        self.url = ""
        self.token = ""
        self.error: BaseException | None = None
        self._wiring: Wiring | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: Listener | None = None

    def serve(self, database_url: str, folder: Path, **settings: object) -> None:
        async def main() -> None:
            await migrations.upgrade(database_url)
            async with wired(database_url, settings_for_test(folder, **settings)) as wiring:
                self.token = await token_of(wiring, Role.ADMINISTRATOR)
                self._wiring, self._loop = wiring, asyncio.get_running_loop()
                bound = bind("127.0.0.1", 0, setting="users_port")
                limit, _ = limits_of_process()
                self._listener = Listener(
                    create_users_app(wiring), bound, limit=limit, certificate=None, key=None, log_level="warning"
                )
                host, port = address_of(bound)
                self.url = f"http://{host}:{port}"
                await self._listener.serve()

        try:
            asyncio.run(main())
        except BaseException as error:
            self.error = error
            raise

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.stop()

    def client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=30, trust_env=False
        )

    def do(self, work: Callable[[Wiring], Coroutine[Any, Any, Made]]) -> Made:
        """Work with the application's own services, in its loop, while it serves."""
        assert self._wiring is not None
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work(self._wiring), self._loop).result(_DEADLINE_S)


@contextmanager
def live_application(database_url: str, folder: Path, **settings: object) -> Generator[LiveApplication]:
    """The application on a database, which is migrated first where it is not yet."""
    live = LiveApplication()
    thread = threading.Thread(target=live.serve, args=(database_url, folder), kwargs=settings, daemon=True)
    thread.start()
    wait_for(lambda: live.url or live.error, deadline_s=_DEADLINE_S, describe="the application on a socket")
    assert live.error is None
    try:
        yield live
    finally:
        live.stop()
        thread.join(timeout=20)
