"""Store the reports of drivers about their queries."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from app.core.runs.service.heartbeats import check_scope
from app.core.runs.store.tasks import TaskStore
from app.kit.access import RunTokenScope
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import NotFoundError
from app.products.dataframes.accepting import accepted_report
from app.products.dataframes.store import QueryStore
from app.products.dataframes.wire import QueryAnswer, QueryReport


class ReceivedReport(NamedTuple):
    """The answer to the driver, and the number of dropped values of the report by field."""

    answer: QueryAnswer
    dropped: Counter[str]
    pipeline: str


async def receive_report(
    uow: UnitOfWork, report: QueryReport, *, scope: RunTokenScope, now: datetime
) -> ReceivedReport:
    """Store the state and the batches of a query.

    A report of a lease that has ended is answered as stored, and is not stored. A newer driver may have the query.

    Raises ForbiddenError if the token is another lease's, InvalidError for an impossible batch number, and
    NotFoundError if the lease is not in this database.
    """
    check_scope(scope, run_id=report.run_id, ordinal=report.ordinal, lease=report.lease)
    accepted = accepted_report(report, now=now)
    context = await uow.of(TaskStore).lease_context(run_id=scope.run_id, ordinal=scope.ordinal, lease=scope.lease)
    if context is None:
        raise NotFoundError(
            f"run {scope.run_id} has no lease {scope.lease} of instance {scope.ordinal} in this database"
        )
    if context.lease_is_current:
        if not accepted.batches:
            await uow.relax_durability()
        await uow.of(QueryStore).record(context.pipeline, accepted.status, accepted.batches)
        uow.notify("pipeline", context.pipeline)
    return ReceivedReport(QueryAnswer(stored=True), accepted.dropped, context.pipeline)
