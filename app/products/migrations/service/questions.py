"""Answer the questions of the preflight and the last stage with existing services."""

from __future__ import annotations

from collections.abc import Mapping

from app.core.asked_audits import AskedAudits
from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.service import operating
from app.core.clusters.brokers import Brokers, GroupDescription
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.clusters.survey import ABORT_SWEEP, Survey, longest_ms
from app.core.clusters.surveys import Surveys
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.observing.service.observations import Observations
from app.core.pipelines.store import PipelineStore
from app.core.runs.service.recorded_offsets import refuse_lost_offsets
from app.core.runs.store.runs import RunStore
from app.kit.access import MIGRATIONS
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from app.kit.errors import ConflictError, FencelineError
from app.products.migrations.clause import few
from app.products.migrations.look import AuditNow, Incarnation, PreflightFacts
from app.products.migrations.migration import Migration

_TIMEOUT_S = 5.0
_OF_AN_ID_S = 0.02
"""The extra time for the permissions of each id, which take two requests in sequence."""


class BrokerActs:
    """Implements MigrationActs (app/products/migrations/ports.py). Each fence is recorded in the command log first."""

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        brokers: TransactionBrokers,
        observations: Observations,
        clock: Clock,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._brokers = brokers
        self._observations = observations
        self._clock = clock

    async def fence(self, migration: Migration, transactional_id: str, *, step: int) -> Incarnation:
        async with self._unit_of_work() as uow:
            fenced = await operating.fence(
                uow,
                self._unit_of_work,
                self._brokers,
                cluster=migration.cluster,
                transactional_id=transactional_id,
                force=True,
                by=MIGRATIONS,
                why=f"step {step} of migration {migration.id}: the id is retired or has no live owner",
                observations=self._observations,
                clock=self._clock,
            )
            await uow.commit()
        return Incarnation(transactional_id, fenced.producer_id, fenced.producer_epoch)


class BrokerQuestions:
    """Implements MigrationQuestions (app/products/migrations/ports.py)."""

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        brokers: Brokers,
        transactions: TransactionBrokers,
        surveys: Surveys,
        observations: Observations,
        clock: Clock,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._brokers = brokers
        self._transactions = transactions
        self._surveys = surveys
        self._observations = observations
        self._clock = clock

    async def preflight(self, migration: Migration, ids: tuple[str, ...]) -> PreflightFacts:
        async with self._unit_of_work() as uow:
            cluster = await uow.of(ClusterStore).get(migration.cluster)
            run = await uow.of(RunStore).get(migration.run_id)
            definition = (await uow.of(PipelineStore).get_revision(migration.pipeline, run.revision)).definition
            owners = await uow.of(TransactionalIdStore).owners(kafka_cluster_id=run.kafka_cluster_id, ids=ids)
        answer = await self._surveys.of(cluster)
        refused, unknown = await self._rights(cluster, ids)
        search = self._observations.search_of(cluster.name)
        return PreflightFacts(
            versions=_versions(answer.survey),
            brokers_problem=answer.problem,
            features=_features(answer.survey),
            rights_refused=refused,
            rights_unknown=unknown,
            hanging=tuple(one.sentence for one in search.hanging),
            hanging_unknown=search.warning(int(self._clock.now().timestamp() * 1000)),
            owned_by_others=tuple(
                f"{one.transactional_id} belongs to pipeline {one.pipeline}"
                for one in owners
                if one.pipeline != migration.pipeline
            ),
            transaction_timeout_ms=definition.transaction_timeout_ms,
            abort_sweep_ms=None if answer.survey is None else longest_ms(answer.survey, ABORT_SWEEP),
        )

    async def group(self, migration: Migration) -> GroupDescription | None:
        async with self._unit_of_work() as uow:
            cluster = await uow.of(ClusterStore).get(migration.cluster)
        return await self._described(cluster, migration.group)

    async def of_cluster(self, cluster: str, group: str) -> tuple[GroupDescription | None, Survey | None]:
        async with self._unit_of_work() as uow:
            entry = await uow.of(ClusterStore).get(cluster)
        return await self._described(entry, group), (await self._surveys.of(entry)).survey

    async def _described(self, cluster: Cluster, group: str) -> GroupDescription | None:
        try:
            return await self._brokers.describe_group(cluster.connection(), group, timeout_s=_TIMEOUT_S)
        except FencelineError:
            return None

    async def held_back(self, migration: Migration) -> Mapping[str, tuple[int, int]] | None:
        async with self._unit_of_work() as uow:
            cluster = await uow.of(ClusterStore).get(migration.cluster)
            sink = (await uow.of(PipelineStore).get(migration.pipeline)).definition.sink_topic
        try:
            found = await self._transactions.held_back(cluster.connection(), timeout_s=_TIMEOUT_S)
        except FencelineError:
            return None
        return {
            f"{topic}-{number}": (ends.last_stable, ends.high_watermark)
            for (topic, number), ends in sorted(found.ends.items())
            if topic == sink
        }

    async def lost_offsets(self, migration: Migration) -> str:
        async with self._unit_of_work() as uow:
            pipeline = await uow.of(PipelineStore).get(migration.pipeline)
            try:
                await refuse_lost_offsets(uow, self._brokers, pipeline, timeout_s=_TIMEOUT_S)
            except ConflictError as error:
                return error.message
            except FencelineError:
                # The workers compare them as well at their start.
                return ""
        return ""

    async def audit(self, uow: UnitOfWork, migration: Migration) -> AuditNow:
        audits = uow.part(AskedAudits)
        if migration.audit_id is None:
            try:
                word = await audits.ask(
                    uow,
                    pipeline=migration.pipeline,
                    begin=migration.started_at,
                    end=migration.stage_since,
                    by=MIGRATIONS,
                    why=f"migration {migration.id}",
                    now=self._clock.now(),
                )
            except ConflictError as error:
                return AuditNow(audit_id="", is_through=True, problem=error.message)
            return AuditNow(audit_id=word.audit_id or "", is_through=word.is_through, problem=word.no_audit)
        word = await audits.word(uow, migration.audit_id)
        figures = word.figures
        return AuditNow(
            audit_id=migration.audit_id,
            is_through=word.is_through,
            lost=0 if figures is None else figures.lost,
            duplicated=0 if figures is None else figures.duplicated,
            dangling=0 if figures is None else figures.dangling,
            expected=0 if figures is None else figures.expected,
            problem=word.no_audit if figures is None else figures.incomplete,
        )

    async def _rights(self, cluster: Cluster, ids: tuple[str, ...]) -> tuple[tuple[str, ...] | None, str]:
        """Return the refusals, one for each id, and why those of some ids cannot be known."""
        try:
            found = await self._transactions.fences_refused(
                cluster.connection(), ids, timeout_s=_TIMEOUT_S + len(ids) * _OF_AN_ID_S
            )
        except FencelineError as error:
            return None, error.message
        refused = tuple(one.sentence for one in found.values() if one.permission is not None)
        return refused, few([one.sentence for one in found.values() if one.permission is None])


def _versions(survey: Survey | None) -> Mapping[str, tuple[int, int] | None]:
    return {} if survey is None else {str(one.id): one.version for one in survey.brokers}


def _features(survey: Survey | None) -> str:
    if survey is None or not survey.features:
        return "no features are finalized"
    return "finalized: " + ", ".join(f"{one.name} {one.level}" for one in survey.features)
