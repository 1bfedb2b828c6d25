"""Surveys of clusters, at most one every half minute, for any number of readers."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec

from app.core.clusters.brokers import Brokers
from app.core.clusters.cluster import Cluster
from app.core.clusters.service import refuse_other_cluster
from app.core.clusters.survey import Survey
from app.kit.clock import Clock
from app.kit.errors import FencelineError

KEPT_FOR = timedelta(seconds=30)
TRIED_AGAIN_AFTER = timedelta(seconds=5)


class SurveyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """survey: None with the `problem`, a sentence. at: when the brokers were asked."""

    survey: Survey | None
    problem: str
    at: datetime


class Surveys:
    """Belongs to one event loop; concurrent callers wait for the same answer."""

    def __init__(self, brokers: Brokers, clock: Clock) -> None:
        self._brokers = brokers
        self._clock = clock
        self._answers: dict[str, tuple[Cluster, SurveyAnswer]] = {}
        self._asking: dict[str, asyncio.Lock] = {}

    async def of(self, cluster: Cluster) -> SurveyAnswer:
        """Return the survey of now, or of at most KEPT_FOR ago; never raises because of the brokers."""
        async with self._asking.setdefault(cluster.name, asyncio.Lock()):
            known = self._answers.get(cluster.name)
            if known is None or known[0] != cluster or self._is_old(known[1]):
                known = self._answers[cluster.name] = (cluster, await self._ask(cluster))
            return known[1]

    def _is_old(self, answer: SurveyAnswer) -> bool:
        return self._clock.now() - answer.at >= (TRIED_AGAIN_AFTER if answer.problem else KEPT_FOR)

    async def _ask(self, cluster: Cluster) -> SurveyAnswer:
        try:
            survey = await self._brokers.survey(cluster.connection())
            refuse_other_cluster(cluster, survey.cluster_id)
        except FencelineError as error:
            return SurveyAnswer(survey=None, problem=error.message, at=self._clock.now())
        return SurveyAnswer(survey=survey, problem="", at=self._clock.now())
