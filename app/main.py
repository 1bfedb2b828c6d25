"""Wiring: settings in, a running server out. Every part is made here and handed to those that use it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar

import psutil

from app.db import migrations
from app.db.changes import ChangeFeed
from app.db.database import Database
from app.db.locks import AdvisoryLocks
from app.domain.access import COMMAND_LINE, Principal, Role
from app.domain.errors import FencelineError, UnavailableError
from app.domain.reconciliation.view import Timing
from app.embedded.errors import EmbeddedError
from app.embedded.java import JavaMissingError, drivers_java
from app.embedded.postgres import EmbeddedPostgres
from app.kafka.admin import KafkaBrokers
from app.log_lines import log_to
from app.loops.reconciler import Reconciler
from app.loops.retention import Retention
from app.loops.supervisor import LoopState, Supervisor
from app.ports.clock import SystemClock
from app.ports.unit_of_work import UnitOfWork
from app.services import tokens
from app.settings import Settings, url_of
from app.spark.launcher import SubmitLauncher
from app.state_files import (
    RunningServer,
    StateFileError,
    find_server,
    prepare_folder,
    write_private,
    write_server,
)
from app.web.application import create_users_app
from app.web.dependencies import PartHealth, Wiring
from app.web.listeners import Listener, ListenError, address_of, bind, serve_until_signal
from app.web.security.login_limit import LoginLimit
from app.web.workers import create_workers_app

log = logging.getLogger(__name__)
T = TypeVar("T")
SchemaAction = Literal["upgrade", "downgrade", "current"]

_LOOK_AGAIN_S = 1.0
_PROBE_WITHIN_S = 2.0
FIRST_ADMINISTRATOR = "first-administrator"
LOCAL_TOKEN = "local-administrator"  # noqa: S105 - a token's name


class StartError(Exception):
    """The server or a command cannot start; the message names the thing and the way out."""


@dataclass(frozen=True, kw_only=True)
class Started:
    """Where the server listens. `login_url` logs the administrator in once; only the first start has one."""

    users_url: str
    workers_url: str
    login_url: str | None


@dataclass(frozen=True, kw_only=True)
class SchemaState:
    current: str | None
    newest: str


def serve(settings: Settings, *, announce: Callable[[Started], None]) -> None:
    """Run the server until SIGTERM or SIGINT. Raises StartError when it cannot start."""
    try:
        prepare_folder(settings.state_dir)
        log_to(settings)
        asyncio.run(_serve(settings, announce))
    except (ListenError, StateFileError, EmbeddedError) as error:
        raise StartError(str(error)) from error


def on_database(settings: Settings, work: Callable[[UnitOfWork], Awaitable[T]]) -> T:
    """Do `work` in one unit of work on an up-to-date schema, and commit. Raises FencelineError and StartError."""

    async def do() -> T:
        async with _own_database(settings) as url:
            await migrations.upgrade(url)
            database = Database(url)
            try:
                async with database.unit_of_work() as uow:
                    result = await work(uow)
                    await uow.commit()
                    return result
            finally:
                await database.close()

    return _run(do())


def migrate(settings: Settings, action: SchemaAction, revision: str) -> SchemaState:
    """Move the schema, or only look at it. Raises FencelineError and StartError."""

    async def do() -> SchemaState:
        async with _own_database(settings) as url:
            match action:
                case "upgrade":
                    found = await migrations.upgrade(url, to=revision)
                case "downgrade":
                    found = await migrations.downgrade(url, to=revision)
                case "current":
                    found = await migrations.current(url)
            return SchemaState(current=found.current, newest=found.newest)

    return _run(do())


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except (StateFileError, EmbeddedError) as error:
        raise StartError(str(error)) from error


@asynccontextmanager
async def _own_database(settings: Settings) -> AsyncGenerator[str]:
    """The database's URL: as set, else that of the server that runs here, else an embedded one for this while."""
    if settings.database_url is not None:
        yield settings.database_url
        return
    running = find_server(settings.server_file)
    if running is not None:
        yield running.database_url
        return
    prepare_folder(settings.state_dir)
    postgres = await asyncio.to_thread(_start_postgres, settings)
    try:
        yield postgres.url
    finally:
        await asyncio.to_thread(postgres.stop)


def _start_postgres(settings: Settings) -> EmbeddedPostgres:
    return EmbeddedPostgres.start(data_dir=settings.state_dir / "postgres")


async def _serve(settings: Settings, announce: Callable[[Started], None]) -> None:
    other = find_server(settings.server_file)
    if other is not None:
        raise StartError(
            f"a Fenceline server (pid {other.pid}, {other.users_url}) works on {settings.state_dir} already: end it, "
            "or give this one a folder of its own with FENCELINE_STATE_DIR"
        )
    async with AsyncExitStack() as stack:
        users = stack.enter_context(bind(settings.users_host, settings.users_port, setting="users_port"))
        workers = stack.enter_context(bind(settings.workers_host, settings.workers_port, setting="workers_port"))
        postgres: EmbeddedPostgres | None = None
        if settings.database_url is None:
            postgres = await asyncio.to_thread(_start_postgres, settings)
            stack.callback(postgres.stop)
        database = Database(settings.database_url or postgres_url(postgres))
        stack.push_async_callback(database.close)
        brokers = KafkaBrokers(environment=os.environ, secrets_dir=settings.secrets_dir)
        stack.push_async_callback(brokers.close)
        server = _Server(
            settings,
            database=database,
            brokers=brokers,
            users_url=settings.public_url or _url_of(users, settings),
            workers_url=settings.workers_url or _url_of(workers, settings),
        )
        tls: dict[str, Path | None] = {"certificate": settings.tls_certificate, "key": settings.tls_key}
        level = "debug" if settings.log_level == "debug" else "warning"
        listeners = [
            Listener(create_users_app(server.wiring), users, log_level=level, **tls),
            Listener(create_workers_app(server.wiring), workers, log_level=level, **tls),
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
        try:
            await serve_until_signal(listeners, server.wiring.stopping)
        finally:
            for task in background:
                task.cancel()
            ended = await asyncio.gather(*background, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise outcome


def postgres_url(postgres: EmbeddedPostgres | None) -> str:
    if postgres is None:
        raise StartError("there is neither a database URL nor an embedded Postgres")
    return postgres.url


class _Server:
    """The parts of one server process, and what they do beside answering requests."""

    def __init__(
        self, settings: Settings, *, database: Database, brokers: KafkaBrokers, users_url: str, workers_url: str
    ) -> None:
        self._settings = settings
        self._database = database
        self._clock = SystemClock()
        self._changes = ChangeFeed(database.url)
        self._schema_problem: str | None = "its schema was not looked at yet"
        self._supervisor = Supervisor(self._loops(workers_url), locks=AdvisoryLocks(database.url), clock=self._clock)
        self.wiring = Wiring(
            settings=settings,
            clock=self._clock,
            unit_of_work=database.unit_of_work,
            brokers=brokers,
            changes=self._changes,
            login_limit=LoginLimit(failures_per_minute=settings.login_failures_per_minute),
            health=self._health,
            users_url=users_url,
            workers_urls=(workers_url,),
            version=version("fenceline"),
        )

    def _loops(self, workers_url: str) -> Sequence[Reconciler | Retention]:
        settings = self._settings
        java_home, java_missing = _java(settings.java_home)
        launcher = SubmitLauncher(
            state_dir=settings.state_dir,
            cache_dir=settings.cache_dir,
            version=version("fenceline"),
            python=sys.executable,
            worker_python=settings.worker_python,
            java_home=java_home,
            java_missing=java_missing,
            master_web_urls=_pairs(settings.spark_master_web_urls),
            environment=_driver_environment(settings),
        )
        reconciler = Reconciler(
            unit_of_work=self._database.unit_of_work,
            launcher=launcher,
            clock=self._clock,
            host=socket.gethostname(),
            version=version("fenceline"),
            server_urls=lambda: (workers_url,),
            timing=Timing(
                heartbeat_timeout=timedelta(seconds=settings.heartbeat_timeout_s),
                lost_after=timedelta(seconds=settings.lost_after_s),
            ),
        )
        return [reconciler, Retention(unit_of_work=self._database.unit_of_work, clock=self._clock)]

    async def work(self, announce: Callable[[Started], None]) -> None:
        """Bring the schema up to date, as soon as Postgres lets us; then announce, and keep the loops going."""
        async with asyncio.TaskGroup() as group:
            await self._upgrade_schema()
            announce(await self._first_start())
            group.create_task(self._changes.run(), name="change feed")
            group.create_task(self._supervisor.run(), name="loops")

    async def _upgrade_schema(self) -> None:
        said = ""
        while True:
            try:
                await self._database.ping()
                await migrations.upgrade(self._database.url)
            except FencelineError as error:
                self._schema_problem = error.message
                if error.message != said:
                    log.warning("waiting for the database: %s", error.message)
                    said = error.message
                if not isinstance(error, UnavailableError):
                    raise StartError(error.message) from error
                await asyncio.sleep(_LOOK_AGAIN_S)
            else:
                self._schema_problem = None
                return

    async def _first_start(self) -> Started:
        """The first start makes a one-time link for the administrator, and a token for the command line here."""
        settings = self._settings
        now = self._clock.now()
        link: str | None = None
        async with self._database.unit_of_work() as uow:
            # A new or restored database takes its identity here, before anything is told it.
            await uow.identity.database_epoch()
            if await tokens.is_first_start(uow):
                link = await tokens.create_one_time_link(
                    uow,
                    principal=Principal(name=FIRST_ADMINISTRATOR, role=Role.ADMINISTRATOR),
                    lifetime=timedelta(minutes=settings.one_time_link_minutes),
                    by=COMMAND_LINE,
                    now=now,
                )
                _, secret = await tokens.create_token(
                    uow,
                    name=LOCAL_TOKEN,
                    role=Role.ADMINISTRATOR,
                    by=COMMAND_LINE,
                    why="the first start made it for the command line on this host",
                    now=now,
                )
                write_private(settings.token_file, secret + "\n")
            await uow.commit()
        return Started(
            users_url=self.wiring.users_url,
            workers_url=self.wiring.workers_urls[0],
            login_url=None if link is None else f"{self.wiring.users_url}/login/{link}",
        )

    async def _health(self) -> Sequence[PartHealth]:
        """Asked for each /readyz: Postgres now, its schema, the change feed and every loop."""
        return [await self._postgres_health(), self._schema_health(), self._feed_health(), *self._loop_health()]

    async def _postgres_health(self) -> PartHealth:
        try:
            async with asyncio.timeout(_PROBE_WITHIN_S):
                await self._database.ping()
        except TimeoutError:
            why = f"Postgres at {self._database.address} did not answer within {_PROBE_WITHIN_S:g} s"
            return PartHealth(name="postgres", is_ready=False, why_not=why)
        except FencelineError as error:
            return PartHealth(name="postgres", is_ready=False, why_not=error.message)
        return PartHealth(name="postgres", is_ready=True)

    def _schema_health(self) -> PartHealth:
        return PartHealth(name="schema", is_ready=self._schema_problem is None, why_not=self._schema_problem or "")

    def _feed_health(self) -> PartHealth:
        why_not = "the change feed does not listen now; pages are renewed every few seconds only"
        return PartHealth(name="change feed", is_ready=self._changes.is_listening, why_not=why_not)

    def _loop_health(self) -> list[PartHealth]:
        return [
            PartHealth(
                name=f"loop {loop.name}",
                is_ready=loop.state is not LoopState.BACKING_OFF,
                why_not=f"{loop.failures_in_a_row} failures in a row: {loop.last_error}",
            )
            for loop in self._supervisor.health()
        ]


async def _keep_alive(postgres: EmbeddedPostgres) -> None:
    """Start the embedded Postgres again when it has died."""
    while True:
        await asyncio.sleep(_LOOK_AGAIN_S)
        if not postgres.is_running:
            log.warning("the embedded Postgres has ended; starting it again")
            with suppress(EmbeddedError):
                await asyncio.to_thread(postgres.start_again)


def _url_of(bound: socket.socket, settings: Settings) -> str:
    """The URL of a listener; one that listens on every address is reached by this machine's name."""
    host, port = address_of(bound)
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    return url_of(name, port, is_tls=settings.has_own_tls)


def _java(named: Path | None) -> tuple[Path | None, str | None]:
    """The Java of drivers, or why there is none: the server does not need it, a run's instances then fail with it."""
    try:
        return drivers_java(named).home, None
    except JavaMissingError as error:
        missing = f"no Spark application can be started: {error}; then restart the server"
        log.warning(missing)
        return None, missing


def _pairs(settings: Sequence[str]) -> Mapping[str, str]:
    return {master: url for master, is_pair, url in (pair.partition("=") for pair in settings) if is_pair}


def _driver_environment(settings: Settings) -> Mapping[str, str]:
    """What drivers inherit: a folder of secrets that stands in the settings file counts as if it were exported."""
    if settings.secrets_dir is None:
        return dict(os.environ)
    return {**os.environ, "FENCELINE_SECRETS_DIR": str(settings.secrets_dir)}
