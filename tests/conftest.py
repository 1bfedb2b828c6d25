"""The services every test may ask for, the order of tests, and what a run samples.

Services are the real ones, started once a run and only when a test asks: `kafka` (one broker), `kafka_cluster3`,
`make_database` and `database`, `spark_cluster`.
"""

import os
import random
import secrets
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Protocol, cast

import hypothesis
import pytest

from app.edges.db import migrations
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.embedded.spark import SparkCluster
from app.edges.main.products import PARTS
from tests.support import results
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.collection import Suite, cost, forbid_clusters, not_drawn, over_budget, suites_of
from tests.support.databases import MigratedDatabases, create_database, drop_database
from tests.support.progress import Progress
from tests.support.results import SECONDS, timed_tests
from tests.support.topics import create_topic, delete_topics, unique_name

# How long one example takes depends on who else uses the machine; what is slow is seen in the suite's durations.
hypothesis.settings.register_profile("fenceline", deadline=None)
hypothesis.settings.load_profile("fenceline")

pytest_plugins = ("tests.support.fixtures",)
TIMED = Path(__file__).parent / "results" / SECONDS
MORE_S = 900.0
"""About how long `make test-more` takes, by what its tests took when they were last timed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run every case: sample nothing")
    parser.addoption("--seed", type=int, default=None, help="the seed of everything drawn by chance (printed)")
    parser.addoption(
        "--suite",
        choices=[suite.value for suite in Suite],
        default=None,
        help="quick: without broker, Spark and browser, may run on several processes (-n); core: the promises on the "
        "real parts; more: the rest, sampled",
    )
    parser.addoption("--minutes", type=float, default=None, help="begin no test after that many minutes: skip the rest")
    parser.addoption("--results", type=Path, default=None, help="write what the run showed into this file, as JSON")
    parser.addoption("--continue", action="store_true", help="run only what an interrupted run of this tree left out")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--seed") is None:
        config.option.seed = secrets.randbelow(2**32)
    if (file := config.getoption("--results")) is not None:
        results.write_at_end(config, file)

    if not config.getoption("collectonly"):
        config.pluginmanager.register(Progress(config, timed_tests(TIMED)))


def pytest_report_header(config: pytest.Config) -> str:
    sampled = "nothing" if config.getoption("--all") else "fault cases, group protocols and broker versions"
    return f"fenceline: --seed {config.getoption('--seed')}, {sampled} sampled"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Draw the cases of sampled tests, keep the suite asked for, then put the quickest kind of test first."""
    rng = random.Random(config.getoption("--seed"))
    if (suite := config.getoption("--suite")) is not None:
        suites = suites_of(items, rng)
        _drop(config, items, [item for item in items if suites[item.nodeid] != suite])
    if not config.getoption("--all") and suite != Suite.CORE:
        _drop(config, items, not_drawn(items, rng))
        if suite == Suite.MORE:
            _drop(config, items, over_budget(items, rng, seconds=timed_tests(TIMED), budget_s=MORE_S))
    if config.getoption("--continue"):
        if (file := config.getoption("--results")) is None:
            raise pytest.UsageError("--continue needs --results: the file of the interrupted run")
        finished = results.finished_tests(file)
        items[:] = [item for item in items if item.nodeid not in finished]
    items.sort(key=cost)


def _drop(config: pytest.Config, items: list[pytest.Item], dropped: list[pytest.Item]) -> None:
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        gone = set(dropped)
        items[:] = [item for item in items if item not in gone]


_BEGAN = pytest.StashKey[float]()


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[_BEGAN] = time.monotonic()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """On a machine that is slower than the one that timed the tests, a sample ends in time, and says what it omits."""
    minutes: float | None = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - item.config.stash[_BEGAN] > 60 * minutes:
        pytest.skip(f"not begun: {minutes:g} minutes were over")


@pytest.fixture(scope="session", autouse=True)
def no_clusters(request: pytest.FixtureRequest) -> Generator[None]:
    """In the quick suite, a test fails that starts a broker or Spark in its own process."""
    with pytest.MonkeyPatch.context() as patch:
        if request.config.getoption("--suite") == Suite.QUICK:
            forbid_clusters(patch)
        yield


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The run's seed, printed in the header: `pytest --seed N` repeats its choices."""
    return cast(int, request.config.getoption("--seed"))


@pytest.fixture(scope="session")
def everything(request: pytest.FixtureRequest) -> bool:
    """True under `--all`: a test that shortens itself otherwise runs whole."""
    return cast(bool, request.config.getoption("--all"))


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Randomness that depends on the run's seed and the test's name alone, not on what ran before."""
    return random.Random(f"{seed}/{request.node.nodeid}")


@pytest.fixture(scope="session")
def kafka() -> Generator[KafkaCluster]:
    """One broker for the whole run: leave it running and as it was."""
    with KafkaCluster.start(overrides=TEST_BROKER_SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_cluster3() -> Generator[KafkaCluster]:
    """Three brokers with replication factor 3 and min.insync.replicas 2: restart what you stop."""
    with KafkaCluster.start(brokers=3, overrides=TEST_BROKER_SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def spark_cluster() -> Generator[SparkCluster]:
    """A master and two workers of two cores each: restart what you stop, and end your applications."""
    with SparkCluster.start(workers=2, cores_per_worker=2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def postgres_server_url() -> Generator[str]:
    """A server on which databases may be created: the one of FENCELINE_DATABASE_URL, else an embedded one."""
    if url := os.environ.get("FENCELINE_DATABASE_URL"):
        yield url
        return
    with EmbeddedPostgres.start(durable=False) as server:
        yield server.url


class MakeDatabase(Protocol):
    """Makes a fresh database and says its URL (`postgresql+psycopg://…`)."""

    def __call__(self, *, template: str | None = None) -> str:
        """`template` is the URL of a database to copy (nobody may be connected to it): quicker than migrating anew."""
        ...


@pytest.fixture
def make_database(postgres_server_url: str) -> Generator[MakeDatabase]:
    """Databases of one test's own, dropped when it is over, whoever is still connected."""
    made: list[str] = []

    def make(*, template: str | None = None) -> str:
        url = create_database(postgres_server_url, template=template)
        made.append(url)
        return url

    yield make
    for url in made:
        drop_database(postgres_server_url, url)


@pytest.fixture(scope="session")
async def migrated_url(postgres_server_url: str) -> AsyncGenerator[str]:
    """A template with the schema and no rows, for `make_database(template=…)`; nobody stays connected to it."""
    url = create_database(postgres_server_url)
    await migrations.upgrade(url)
    yield url
    drop_database(postgres_server_url, url)


@pytest.fixture(scope="session")
def migrated_databases(postgres_server_url: str, migrated_url: str) -> Generator[MigratedDatabases]:
    databases = MigratedDatabases(postgres_server_url, migrated_url)
    yield databases
    databases.drop()


@pytest.fixture
def database_url(migrated_databases: MigratedDatabases) -> Generator[str]:
    """The URL of a migrated database without rows that no other test has."""
    url = migrated_databases.take()
    yield url
    migrated_databases.give_back(url)


@pytest.fixture
async def database(database_url: str) -> AsyncGenerator[Database]:
    """A migrated database without rows that no other test has."""
    made = Database(database_url, parts=PARTS)
    yield made
    await made.close()


class MakeTopic(Protocol):
    """Makes a fresh topic on the shared broker and says its name."""

    def __call__(self, *, partitions: int = 1, prefix: str = "t", **config: str) -> str:
        """`config` are topic settings with underscores for dots (`max_message_bytes="1000"`)."""
        ...


@pytest.fixture
def topic_name() -> str:
    """A name that no topic, group or transactional id has yet."""
    return unique_name()


@pytest.fixture
def make_topic(kafka: KafkaCluster) -> Generator[MakeTopic]:
    """Fresh topics on `kafka`, deleted when the test is over."""
    made: list[str] = []

    def make(*, partitions: int = 1, prefix: str = "t", **config: str) -> str:
        name = unique_name(prefix)
        settings = {key.replace("_", "."): value for key, value in config.items()}
        create_topic(kafka.bootstrap_servers, name, partitions=partitions, config=settings)
        made.append(name)
        return name

    yield make
    delete_topics(kafka.bootstrap_servers, made)
