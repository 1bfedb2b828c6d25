"""The parts of one server, with its background work."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version

from app.core.access.service import tokens
from app.core.access.store.identity import IdentityStore
from app.core.alerts.conditions import AlertBounds
from app.core.alerts.loop import AlertWatch
from app.core.blocked.loops.blocked_readers import BlockedReadersWatch
from app.core.blocked.loops.dead_tasks import DeadTasks
from app.core.clusters.surveys import Surveys
from app.core.fencing.loop import FencingRecorder
from app.core.hanging.loops.searches import HangingSearch
from app.core.ids.loop import IdCensus
from app.core.lag.fold_files import LagFiles
from app.core.lag.loops.sampler import LagSampler
from app.core.lag.service import Lags
from app.core.observing.fold_files import FoldFiles
from app.core.observing.live_cluster import JOURNALS
from app.core.observing.loops.observer import Observer
from app.core.observing.service.observations import Observations
from app.core.product import ServerParts, placed
from app.core.runs.loops.folders import FolderRetention
from app.core.runs.loops.reconciler import Reconciler
from app.core.runs.loops.retention import Retention
from app.core.runs.reconciliation.view import Timing
from app.core.wiring import Wiring
from app.edges.db import migrations
from app.edges.db.changes import ChangeFeed
from app.edges.db.clock import DatabaseClock
from app.edges.db.database import Database
from app.edges.db.locks import AdvisoryLocks
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.journal_tail import KafkaJournals
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.edges.kafka.transactions.searching import KafkaSearch
from app.edges.main.drivers import launcher_for, spark_submit_for
from app.edges.main.errors import StartError
from app.edges.main.health import Health
from app.edges.main.own_freeze import freeze_self
from app.edges.main.products import PRODUCTS
from app.edges.spark.instance_folders import StateFolders
from app.edges.spark.spark_submit import SparkSubmit
from app.kit.access import COMMAND_LINE, Principal, Role
from app.kit.errors import FencelineError, UnavailableError
from app.kit.loops.supervisor import ClosedLoop, Loop, Supervisor
from app.kit.settings import Settings
from app.kit.state_files import write_private
from app.kit.web.security.login_limit import LoginLimit

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 1.0
FIRST_ADMINISTRATOR = "first-administrator"
LOCAL_TOKEN = "local-administrator"  # noqa: S105 - a token's name


@dataclass(frozen=True, kw_only=True)
class Started:
    """The addresses of the server. `login_url` logs the administrator in once; only the first start has one."""

    users_url: str
    workers_url: str
    login_url: str | None


class Server:
    """Made before any listener is open; `work` runs for as long as the server does."""

    def __init__(
        self,
        settings: Settings,
        *,
        database: Database,
        brokers: KafkaBrokers,
        transactions: KafkaTransactions,
        users_url: str,
        workers_url: str,
    ) -> None:
        self._settings = settings
        self._database = database
        self._brokers = brokers
        self._transactions = transactions
        self._clock = DatabaseClock(database.now)
        self._surveys = Surveys(brokers, self._clock)
        self._changes = ChangeFeed(database.url)
        self._observations = Observations(is_on=settings.observe, announce=self._changes.announce)
        self._lags = Lags()
        # Every server observes and records its own view: the lock of such a loop is its own.
        self._where = f"{socket.gethostname()}:{settings.state_dir}"
        self._fencing = FencingRecorder(
            unit_of_work=database.unit_of_work,
            clock=self._clock,
            where=self._where,
            groups=lambda cluster: self._observations.of(cluster).groups,
            clocks=lambda cluster: self._observations.of(cluster).clocks,
        )
        self._observer = self._make_observer() if settings.observe else None
        self._hanging = self._make_search() if settings.observe else None
        spark_submit = spark_submit_for(settings)
        self._launcher = launcher_for(settings, spark_submit)
        self._dead_tasks = DeadTasks(
            unit_of_work=database.unit_of_work,
            brokers=transactions,
            launcher=self._launcher,
            clock=self._clock,
            host=spark_submit.host,
            where=self._where,
        )
        parts: dict[type, object] = {SparkSubmit: spark_submit}
        self._parts = ServerParts(
            settings=settings,
            unit_of_work=database.unit_of_work,
            clock=self._clock,
            brokers=brokers,
            transactions=transactions,
            observations=self._observations,
            surveys=self._surveys,
            host=socket.gethostname(),
            where=self._where,
            version=version("fenceline"),
            users_url=users_url,
            workers_urls=(workers_url,),
            freeze_self=freeze_self,
            parts=parts,
        )
        for product in PRODUCTS:
            parts.update(product.parts(self._parts))
        self._running = self._loops()
        self._supervisor = Supervisor(self._running, locks=AdvisoryLocks(database.url), changes=self._changes)
        self._health = Health(database, self._changes, self._supervisor)
        self.wiring = Wiring(
            settings=settings,
            clock=self._clock,
            unit_of_work=database.unit_of_work,
            brokers=brokers,
            transactions=transactions,
            changes=self._changes,
            observations=self._observations,
            surveys=self._surveys,
            lags=self._lags,
            login_limit=LoginLimit(failures_per_minute=settings.login_failures_per_minute),
            health=self._health.of_parts,
            users_url=users_url,
            workers_urls=(workers_url,),
            version=version("fenceline"),
            parts=parts,
            products=PRODUCTS,
            dead_ends=self._dead_tasks.counts,
            dead_members=self._dead_tasks.member_counts,
            gone=self._dead_tasks.hear,
            java_home=spark_submit.java_home,
        )

    def _loops(self) -> Sequence[Loop]:
        settings = self._settings
        reconciler = Reconciler(
            unit_of_work=self._database.unit_of_work,
            launcher=self._launcher,
            clock=self._clock,
            host=self._parts.host,
            version=self._parts.version,
            server_urls=lambda: self._parts.workers_urls,
            native_records=settings.native_records,
            timing=Timing(
                heartbeat_timeout=timedelta(seconds=settings.heartbeat_timeout_s),
                lost_after=timedelta(seconds=settings.lost_after_s),
            ),
        )
        folders = FolderRetention(
            StateFolders(settings.state_dir),
            others=[one.driver_folders(self._parts) for one in PRODUCTS if one.driver_folders is not None],
            unit_of_work=self._database.unit_of_work,
            clock=self._clock,
            where=self._where,
            kept_for=timedelta(days=settings.instance_files_days),
        )
        retention = Retention(unit_of_work=self._database.unit_of_work, clock=self._clock)
        searching = [] if self._hanging is None else [self._hanging]
        ending = [self._dead_tasks] if settings.end_dead_transactions else []
        core: dict[str, Sequence[Loop]] = {
            "reconciler": [reconciler],
            "folders": [retention, folders],
        }
        of_products = [(product.loops_after, product.loops(self._parts)) for product in PRODUCTS]
        return [*placed(core, of_products), *ending, *self._observing(), *searching]

    def _observing(self) -> Sequence[Loop]:
        if self._observer is None:
            return []
        watch = AlertWatch(
            unit_of_work=self._database.unit_of_work,
            observations=self._observations,
            lags=self._lags,
            clock=self._clock,
            bounds=AlertBounds(
                transaction_open=timedelta(seconds=self._settings.alert_transaction_open_s),
                observer=timedelta(seconds=self._settings.alert_observer_s),
                lag_s=self._settings.alert_lag_s,
                lag_growing_s=self._settings.alert_lag_growing_s,
            ),
        )
        census = IdCensus(unit_of_work=self._database.unit_of_work, observations=self._observations, clock=self._clock)
        blocked = BlockedReadersWatch(
            unit_of_work=self._database.unit_of_work,
            brokers=self._transactions,
            observations=self._observations,
            clock=self._clock,
            where=self._where,
        )
        lag = LagSampler(
            unit_of_work=self._database.unit_of_work,
            brokers=self._search_brokers(),
            transactions=self._transactions,
            observations=self._observations,
            lags=self._lags,
            store=LagFiles(self._settings.state_dir / "lag"),
            clock=self._clock,
            where=self._where,
        )
        return [self._observer, self._fencing, watch, census, blocked, lag]

    def _make_observer(self) -> Observer:
        settings = self._settings
        return Observer(
            unit_of_work=self._database.unit_of_work,
            journals=KafkaJournals(
                environment=os.environ,
                secrets_dir=settings.secrets_dir,
                topics=JOURNALS,
                allowed_addresses=settings.allowed_broker_addresses,
            ),
            store=FoldFiles(settings.state_dir / "journals", groups=settings.observed_groups),
            observations=self._observations,
            clock=self._clock,
            where=self._where,
            on_steps=self._fencing.take,
            groups=settings.observed_groups,
            save_every_s=settings.observer_save_s,
        )

    def _search_brokers(self) -> KafkaSearch:
        settings = self._settings
        return KafkaSearch(
            environment=os.environ,
            secrets_dir=settings.secrets_dir,
            allowed_addresses=settings.allowed_broker_addresses,
        )

    def _make_search(self) -> HangingSearch:
        settings = self._settings
        return HangingSearch(
            unit_of_work=self._database.unit_of_work,
            brokers=self._search_brokers(),
            observations=self._observations,
            clock=self._clock,
            where=self._where,
            asks_per_s=settings.hanging_asks_per_s,
            sweep_every_s=settings.hanging_sweep_s,
        )

    async def work(self, announce: Callable[[Started], None]) -> None:
        """Upgrade the schema as soon as Postgres answers; then announce the server, and run the loops."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._upgrade_schema()
                await self._clock.measure()
                group.create_task(self._clock.keep(), name="Postgres's clock")
                announce(await self._first_start())
                group.create_task(self._changes.run(), name="change feed")
                group.create_task(self._supervisor.run(), name="loops")
        finally:
            for loop in self._running:
                if isinstance(loop, ClosedLoop):
                    await loop.close()
            await self.wiring.held_back.close()

    async def _upgrade_schema(self) -> None:
        said = ""
        while True:
            try:
                await self._database.ping()
                await migrations.upgrade(self._database.url)
            except FencelineError as error:
                self._health.schema_problem = error.message
                if error.message != said:
                    log.warning("waiting for the database: %s", error.message)
                    said = error.message
                if not isinstance(error, UnavailableError):
                    raise StartError(error.message) from error
                await asyncio.sleep(LOOK_AGAIN_S)
            else:
                self._health.schema_problem = None
                return

    async def _first_start(self) -> Started:
        """Make a one-time link for the administrator, and a token for the local command line, at the first start."""
        settings = self._settings
        now = self._clock.now()
        link: str | None = None
        async with self._database.unit_of_work() as uow:
            # A new or restored database gets its identity here, before its first use.
            await uow.of(IdentityStore).database_epoch()
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
