"""Surveys of clusters: brokers are asked once in a while, for any number of readers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from app.core.clusters.brokers import Brokers
from app.core.clusters.cluster import Cluster
from app.core.clusters.survey import Survey
from app.core.clusters.surveys import KEPT_FOR, TRIED_AGAIN_AFTER, Surveys
from app.kit.errors import UnavailableError

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
CLUSTER = Cluster(
    name="c", kafka_cluster_id="kafka-1", bootstrap_servers="h:9092", created_at=BEGAN, created_by="somebody"
)


class Clock:
    at = BEGAN

    def now(self) -> datetime:
        return self.at


class Asked:
    """Counts how often it is asked; `error` is raised instead of an answer."""

    def __init__(self, cluster_id: str = "kafka-1") -> None:
        self.times = 0
        self.error: UnavailableError | None = None
        self.cluster_id = cluster_id

    async def survey(self, connection: Mapping[str, str], **_: Any) -> Survey:
        assert connection["bootstrap.servers"].endswith(":9092")
        self.times += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return Survey(cluster_id=self.cluster_id, brokers=(), features=())


def surveys(asked: Asked) -> tuple[Surveys, Clock]:
    clock = Clock()
    return Surveys(cast(Brokers, asked), clock), clock


async def test_concurrent_and_soon_repeated_surveys_get_the_same_answer() -> None:
    asked = Asked()
    made, clock = surveys(asked)
    answers = await asyncio.gather(*(made.of(CLUSTER) for _ in range(20)))
    clock.at += KEPT_FOR - timedelta(milliseconds=1)
    answers.append(await made.of(CLUSTER))
    assert asked.times == 1
    assert {answer.at for answer in answers} == {BEGAN}
    clock.at = BEGAN + KEPT_FOR
    assert (await made.of(CLUSTER)).at == BEGAN + KEPT_FOR


async def test_brokers_that_were_away_are_asked_again_sooner() -> None:
    asked = Asked()
    made, clock = surveys(asked)
    asked.error = UnavailableError("no broker answers")
    assert (await made.of(CLUSTER)).problem == "no broker answers"
    asked.error = None
    assert (await made.of(CLUSTER)).problem == "no broker answers"
    clock.at += TRIED_AGAIN_AFTER
    answer = await made.of(CLUSTER)
    assert (answer.problem, answer.survey is not None, asked.times) == ("", True, 2)


async def test_another_cluster_at_the_address_is_no_answer() -> None:
    made, _ = surveys(Asked("kafka-2"))
    answer = await made.of(CLUSTER)
    assert answer.survey is None
    assert "kafka-2" in answer.problem


async def test_cluster_that_was_registered_again_is_asked_again() -> None:
    asked = Asked()
    made, _ = surveys(asked)
    await made.of(CLUSTER)
    await made.of(msgspec.structs.replace(CLUSTER, bootstrap_servers="other:9092"))
    assert asked.times == 2
