"""The server process: its listeners, its parts, and the order of their start and end."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import psycopg

from app.core.runs.workers_api import create_workers_app
from app.edges.db.database import Database
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.edges.main.errors import StartError
from app.edges.main.log_lines import log_to
from app.edges.main.own_database import start_postgres
from app.edges.main.products import PARTS
from app.edges.main.server import LOOK_AGAIN_S, Server, Started
from app.edges.main.users_app import create_users_app
from app.kit.settings import Settings, url_of
from app.kit.state_files import RunningServer, StateFileError, find_server, prepare_folder, write_server
from app.kit.web.connection_limit import limits_of_process
from app.kit.web.listeners import Listener, ListenError, address_of, bind, serve_until_signal

__all__ = ["Started", "serve"]

log = logging.getLogger(__name__)
_YOUNG_OBJECTS = 50_000


def serve(settings: Settings, *, announce: Callable[[Started], None]) -> None:
    """Run the server until SIGTERM or SIGINT. Raises StartError when it cannot start."""
    try:
        prepare_folder(settings.state_dir)
        log_to(settings)
        asyncio.run(_serve(settings, announce))
    except (ListenError, StateFileError, EmbeddedError) as error:
        raise StartError(str(error)) from error


def collect_garbage_rarely() -> None:
    """Keep full collections rare: none visits the objects of the start, and each needs many new objects before it.

    With many ids and open pages, a full collection stops the process for longer than a page may take. By Python's
    defaults one comes every few seconds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)


async def _serve(settings: Settings, announce: Callable[[Started], None]) -> None:
    other = find_server(settings.server_file)
    if other is not None:
        raise StartError(
            f"the Fenceline server with pid {other.pid} ({other.users_url}) uses {settings.state_dir} already: end it, "
            "or set FENCELINE_STATE_DIR to another folder"
        )
    async with AsyncExitStack() as stack:
        users = stack.enter_context(bind(settings.users_host, settings.users_port, setting="users_port"))
        workers = stack.enter_context(bind(settings.workers_host, settings.workers_port, setting="workers_port"))
        postgres: EmbeddedPostgres | None = None
        database_url = settings.database_url
        if database_url is None:
            postgres = await asyncio.to_thread(start_postgres, settings)
            stack.callback(postgres.stop)
            database_url = postgres.url
        database = Database(database_url, parts=PARTS)
        stack.push_async_callback(database.close)
        allowed = settings.allowed_broker_addresses
        brokers = KafkaBrokers(environment=os.environ, secrets_dir=settings.secrets_dir, allowed_addresses=allowed)
        stack.push_async_callback(brokers.close)
        server = Server(
            settings,
            database=database,
            brokers=brokers,
            transactions=KafkaTransactions(
                environment=os.environ, secrets_dir=settings.secrets_dir, allowed_addresses=allowed
            ),
            users_url=settings.public_url or _url_of(users, settings),
            workers_url=settings.workers_url or _url_of(workers, settings),
        )
        tls: dict[str, Path | None] = {"certificate": settings.tls_certificate, "key": settings.tls_key}
        level = "debug" if settings.log_level == "debug" else "warning"
        users_limit, workers_limit = limits_of_process()
        listeners = [
            Listener(create_users_app(server.wiring), users, limit=users_limit, log_level=level, **tls),
            Listener(create_workers_app(server.wiring), workers, limit=workers_limit, log_level=level, **tls),
        ]
        write_server(
            settings.server_file,
            RunningServer(
                pid=os.getpid(),
                process_started_at=psutil.Process().create_time(),
                users_url=server.wiring.users_url,
                workers_url=server.wiring.workers_urls[0],
                database_url=database.url,
            ),
        )
        stack.callback(settings.server_file.unlink, missing_ok=True)
        log.info("listening at %s and %s", server.wiring.users_url, server.wiring.workers_urls[0])
        background = [asyncio.create_task(server.work(announce), name="background")]
        if postgres is not None:
            background.append(asyncio.create_task(_keep_alive(postgres), name="embedded Postgres"))
        for task in background:
            task.add_done_callback(lambda _: server.wiring.stopping.set())
        collect_garbage_rarely()
        try:
            await serve_until_signal(listeners, server.wiring.stopping)
        finally:
            for task in background:
                task.cancel()
            ended = await asyncio.gather(*background, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise outcome


async def _keep_alive(postgres: EmbeddedPostgres) -> None:
    """Restart the embedded Postgres when it has died, for as long as it takes; each new reason is logged once."""
    said = ""
    while True:
        await asyncio.sleep(LOOK_AGAIN_S)
        if postgres.is_running:
            said = ""
            continue
        if not said:
            log.warning("the embedded Postgres has ended; starting it again")
        try:
            await asyncio.to_thread(postgres.start_again)
        except (EmbeddedError, OSError, psycopg.Error) as error:
            # The lines after the first one are Postgres' own log, which quotes statements.
            reason = str(error).partition("\n")[0]
            if reason != said:
                log.warning("the embedded Postgres cannot be started again: %s %s", reason, postgres.process.log_path)
            said = reason


def _url_of(bound: socket.socket, settings: Settings) -> str:
    """Return the URL of a listener; one on all addresses gets this machine's name."""
    host, port = address_of(bound)
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    return url_of(name, port, is_tls=settings.has_own_tls)
