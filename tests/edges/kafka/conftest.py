"""The Brokers port against the shared broker, and clients beside it."""

from collections.abc import AsyncGenerator, Generator

import pytest

from app.core.clusters.brokers import Connection
from app.edges.kafka.admin import KafkaBrokers
from tests.support.kafka_clients import Members, Writer


@pytest.fixture
async def brokers() -> AsyncGenerator[KafkaBrokers]:
    made = KafkaBrokers(environment={}, secrets_dir=None)
    yield made
    await made.close()


@pytest.fixture
def writer(connection: Connection) -> Writer:
    return Writer(connection)


@pytest.fixture
def members(connection: Connection) -> Generator[Members]:
    made = Members(connection)
    yield made
    made.leave()
