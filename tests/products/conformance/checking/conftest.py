"""The shared broker as a place for checks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

import pytest

from app.edges.embedded.kafka import KafkaCluster
from app.products.conformance.checking.bench import Bench, BenchPlace
from app.products.conformance.checking.checks import CHECKS, results_of
from app.products.conformance.report import CheckResult
from tests.support.topics import unique_name

MakeCheck = Callable[..., CheckResult]


@pytest.fixture
def place(kafka: KafkaCluster) -> Generator[BenchPlace]:
    made = BenchPlace(
        {"bootstrap.servers": kafka.bootstrap_servers},
        prefix=unique_name("conformance"),
        replication_factor=1,
        brokers={},
        patience_s=20,
    )
    yield made
    assert made.left_behind == []
    made.close()


def result_of(place: BenchPlace, name: str, *, bench: type[Bench] = Bench) -> CheckResult:
    """Run the check of this name, and return its result."""
    (result,) = results_of(place, [check for check in CHECKS if check.name == name], bench=bench)
    return result


@pytest.fixture
def checked(place: BenchPlace) -> MakeCheck:
    return partial(result_of, place)
