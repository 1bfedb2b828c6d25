"""The one statement that reads the rows for the judgement of a worker's message."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.runs.instance import InstanceState
from app.core.runs.lease_bounds import LeaseBounds
from app.core.runs.lease_context import LeaseContext
from app.core.runs.run import DesiredRunState
from app.core.runs.task import TaskRates, TaskReport, TaskStatus

_INTEGER = sa.Integer()
LEASE_CONTEXT = sa.text(
    """
    SELECT pipelines.name AS pipeline,
           -- The group of the revision that this instance runs: the pipeline's own may have moved on.
           revisions.definition->>'group_id' AS group_id,
           revisions.definition->'source_topics' AS source_topics,
           revisions.definition->>'transactional_id_prefix' AS transactional_id_prefix,
           revisions.definition->>'processing_guarantee' AS processing_guarantee,
           (revisions.definition->>'tasks_per_instance')::integer AS tasks,
           instances.ordinal,
           pipelines.cluster,
           pipelines.kafka_cluster_id,
           runs.desired,
           runs.ended_at IS NOT NULL AS run_has_ended,
           instances.lease,
           (SELECT max(lease) FROM instances AS all_leases
            WHERE all_leases.run_id = runs.id AND all_leases.ordinal = instances.ordinal) AS current_lease,
           instances.state,
           instances.application_id,
           (SELECT epoch FROM database_identity) AS database_epoch,
           newest.lease AS newest_lease,
           newest.attempt AS newest_attempt,
           drills.drill::text AS drill,
           own.report, own.rates, own.received_at, own.state_since
    FROM instances
    JOIN runs ON runs.id = instances.run_id
    JOIN pipelines ON pipelines.id = runs.pipeline_id
    JOIN revisions ON revisions.pipeline_id = runs.pipeline_id AND revisions.number = instances.revision
    LEFT JOIN LATERAL (
        SELECT lease, attempt FROM task_attempts
        WHERE run_id = runs.id AND ordinal = instances.ordinal AND task = :task
        ORDER BY lease DESC, attempt DESC LIMIT 1
    ) AS newest ON true
    LEFT JOIN drills
        ON drills.ended_at IS NULL AND drills.state IN ('ordered', 'underway') AND drills.run_id = runs.id
        AND (drills.drill->>'ordinal')::integer = instances.ordinal
        AND (drills.drill->>'lease')::integer = instances.lease
    LEFT JOIN task_attempts AS own
        ON own.run_id = runs.id AND own.ordinal = instances.ordinal AND own.task = :task
        AND own.lease = instances.lease AND own.attempt = :attempt
    WHERE instances.run_id = :run_id AND instances.ordinal = :ordinal AND instances.lease = :lease
    """
).bindparams(
    sa.bindparam("run_id", type_=sa.Uuid(as_uuid=False)),
    sa.bindparam("ordinal", type_=_INTEGER),
    sa.bindparam("lease", type_=_INTEGER),
    sa.bindparam("task", type_=_INTEGER),
    sa.bindparam("attempt", type_=_INTEGER),
)


def lease_context(row: sa.Row[Any]) -> LeaseContext:
    own = None
    if row.report is not None:
        own = TaskStatus(
            last=msgspec.convert(row.report, TaskReport),
            received_at=row.received_at,
            state_since=row.state_since,
            rates=msgspec.convert(row.rates, TaskRates),
        )
    return LeaseContext(
        pipeline=row.pipeline,
        group=row.group_id,
        cluster=row.cluster,
        kafka_cluster_id=row.kafka_cluster_id,
        desired=DesiredRunState(row.desired),
        run_has_ended=row.run_has_ended,
        lease=row.lease,
        current_lease=row.current_lease,
        instance_state=InstanceState(row.state),
        application_id=row.application_id,
        database_epoch=str(row.database_epoch),
        bounds=LeaseBounds(
            pipeline=row.pipeline,
            group=row.group_id,
            ordinal=row.ordinal,
            source_topics=tuple(row.source_topics),
            transactional_id_prefix=row.transactional_id_prefix,
            processing_guarantee=ProcessingGuarantee(row.processing_guarantee),
            tasks=row.tasks,
        ),
        drill=row.drill,
        newest=None if row.newest_lease is None else (row.newest_lease, row.newest_attempt),
        own=own,
    )
