"""A server's web side without its process: real services on a real database, talked to in memory."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import httpx

from app.core.access.service import tokens
from app.core.clusters.surveys import Surveys
from app.core.observing.service.observations import Observations
from app.core.pipelines.ports import TopicReader
from app.core.wiring import Wiring
from app.edges.db.changes import ChangeFeed
from app.edges.db.database import Database
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.edges.main.products import PARTS, PRODUCTS
from app.edges.main.users_app import create_users_app
from app.kit.access import COMMAND_LINE, Role
from app.kit.clock import SystemClock
from app.kit.settings import Settings
from app.kit.web.dependencies import PartHealth
from app.kit.web.security.login_limit import LoginLimit
from app.products.migrations.ports import MigrationQuestions
from app.products.migrations.service.questions import BrokerQuestions
from app.products.topics.service.samples import TopicSamples
from app.products.topics.service.topics import TopicNames
from app.products.topics.usage import GroupTopics

USERS_URL = "http://127.0.0.1:8700"
WORKERS_URL = "http://127.0.0.1:8701"


def settings_for_test(folder: Path, **more: object) -> Settings:
    """Settings that touch nothing of the user who runs the tests."""
    return Settings.model_validate({"state_dir": folder / "state", "cache_dir": folder / "cache", **more})


@asynccontextmanager
async def wired(database_url: str, settings: Settings) -> AsyncGenerator[Wiring]:
    """A wiring whose database is migrated already; the change feed receives nothing from Postgres."""
    database = Database(database_url, parts=PARTS, pool_size=5)
    changes = ChangeFeed(database.url)
    brokers = KafkaBrokers(environment=os.environ, secrets_dir=settings.secrets_dir)

    async def health() -> Sequence[PartHealth]:
        return [PartHealth(name="postgres", is_ready=True)]

    transactions = KafkaTransactions(environment=os.environ, secrets_dir=settings.secrets_dir)
    observations = Observations(is_on=settings.observe, announce=changes.announce)
    surveys = Surveys(brokers, SystemClock())
    names = TopicNames(brokers, SystemClock())
    try:
        yield Wiring(
            settings=settings,
            clock=SystemClock(),
            unit_of_work=database.unit_of_work,
            brokers=brokers,
            transactions=transactions,
            changes=changes,
            observations=observations,
            surveys=surveys,
            parts={
                MigrationQuestions: BrokerQuestions(
                    unit_of_work=database.unit_of_work,
                    brokers=brokers,
                    transactions=transactions,
                    surveys=surveys,
                    observations=observations,
                    clock=SystemClock(),
                ),
                TopicNames: names,
                GroupTopics: GroupTopics(),
                TopicReader: TopicSamples(brokers, database.unit_of_work, SystemClock(), names),
            },
            products=PRODUCTS,
            login_limit=LoginLimit(failures_per_minute=settings.login_failures_per_minute),
            health=health,
            users_url=USERS_URL,
            workers_urls=(WORKERS_URL,),
            version=version("fenceline"),
        )
    finally:
        await brokers.close()
        await database.close()


async def token_of(wiring: Wiring, role: Role, *, name: str | None = None) -> str:
    """A new token of that role."""
    async with wiring.unit_of_work() as uow:
        _, secret = await tokens.create_token(
            uow, name=name or f"a-{role}", role=role, by=COMMAND_LINE, why=None, now=datetime.now(UTC)
        )
        await uow.commit()
        return secret


def client_of(
    app: object, *, url: str = USERS_URL, token: str | None = None, client: str = "127.0.0.1"
) -> httpx.AsyncClient:
    """Talks to the application in memory, as `client` does over the network."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(app=app, client=(client, 40_000))  # pyright: ignore[reportArgumentType] - any ASGI application
    return httpx.AsyncClient(transport=transport, base_url=url, headers=headers)


@asynccontextmanager
async def browser_of(wiring: Wiring, role: Role | None) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser, logged in as a user of that role; None: without a login."""
    async with client_of(create_users_app(wiring)) as browser:
        browser.headers.update({"accept": "text/html", "origin": USERS_URL})
        if role is not None:
            await browser.post("/login", data={"token": await token_of(wiring, role)})
        yield browser
