"""Foreign migrations: watched, with each stage recorded when its operator continues."""

from __future__ import annotations

import uuid
from datetime import datetime

import msgspec

from app.core.access.service import command_log
from app.core.clusters.brokers import GroupDescription
from app.core.clusters.store import ClusterStore
from app.core.clusters.survey import Survey
from app.core.journals import transaction_state
from app.core.journals.live_transactions import ClientProtocol, LiveTransaction
from app.core.journals.transaction_state import TransactionStatus
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import Snapshot, SnapshotSource
from app.core.pipelines.store import PipelineStore
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from app.kit.errors import ConflictError, InvalidError
from app.kit.storable import moment_of_ms
from app.products.migrations.foreign import (
    LACKING,
    ForeignId,
    ForeignLook,
    ForeignMember,
    ForeignMigration,
    judged_foreign,
)
from app.products.migrations.judged import Judged
from app.products.migrations.look import IdNow
from app.products.migrations.ports import MigrationQuestions
from app.products.migrations.store.foreign import ForeignMigrationStore

LONGEST_PREFIX = 500


class ForeignView(msgspec.Struct, frozen=True, kw_only=True):
    """gate: the conditions of its stage as the brokers show them now. lacking: evidence that Fenceline cannot get."""

    migration: ForeignMigration
    gate: tuple[Judged, ...]
    lacking: tuple[str, ...]
    look: ForeignLook | None


async def watch_foreign(
    uow: UnitOfWork, *, cluster: str, group: str, prefix: str, by: Principal, why: str | None, now: datetime
) -> ForeignMigration:
    """Start to watch. Raises ConflictError if the group is watched already, or is a pipeline's."""
    require(by, Verb.START_MIGRATION)
    if not prefix.strip() or len(prefix) > LONGEST_PREFIX:
        raise InvalidError("the prefix of the application's transactional ids is missing", field="prefix")
    entry = await uow.of(ClusterStore).get(cluster)
    for pipeline in await uow.of(PipelineStore).list_all():
        if (pipeline.cluster, pipeline.definition.group_id) == (entry.name, group):
            raise ConflictError(f"the group {group} belongs to pipeline {pipeline.name}: migrate that pipeline")
    migration = ForeignMigration(
        id=str(uuid.uuid4()),
        cluster=entry.name,
        group=group,
        prefix=prefix,
        started_at=now,
        started_by=by.name,
        why=why,
        stage_since=now,
    )
    await uow.of(ForeignMigrationStore).add(migration)
    await _log(uow, migration, by=by, why=why, now=now, outcome=f"watches the group {group}, ids {prefix}…")
    return migration


async def go_on(
    uow: UnitOfWork, migration_id: str, look: ForeignLook | None, *, by: Principal, why: str | None, now: datetime
) -> ForeignMigration:
    """Record that the operator begins the next stage, with the conditions that are proven and those that are not.

    Raises ConflictError when it is done, and InvalidError without a reason if a condition is not proven.
    """
    require(by, Verb.START_MIGRATION)
    migration = await uow.of(ForeignMigrationStore).get(migration_id, for_update=True)
    if migration.stage.after is None or look is None:
        raise ConflictError("this migration is done")
    missing = [one.name.replace("_", " ") for one in judged_foreign(migration, look) if not one.is_open]
    if missing and not (why or "").strip():
        raise InvalidError(f"not proven: {', '.join(missing)}. Give a reason to continue", field="why")
    moved = migration.moved(look, by=by.name, why=why)
    await uow.of(ForeignMigrationStore).save(moved)
    outcome = f"on to {moved.stage.words}" + (f", without {', '.join(missing)}" if missing else "")
    await _log(uow, moved, by=by, why=why, now=now, outcome=outcome)
    return moved


async def view_foreign(
    unit_of_work: UnitOfWorkFactory,
    questions: MigrationQuestions,
    observations: Observations,
    migration_id: str,
    *,
    now: datetime,
) -> ForeignView:
    """Return the view. Raises NotFoundError."""
    async with unit_of_work() as uow:
        migration = await uow.of(ForeignMigrationStore).get(migration_id)
    if migration.ended_at is not None:
        return ForeignView(migration=migration, gate=(), lacking=(), look=None)
    group, survey = await questions.of_cluster(migration.cluster, migration.group)
    look = foreign_look(observations.of(migration.cluster), migration, group, survey, now=now)
    return ForeignView(
        migration=migration, gate=judged_foreign(migration, look), lacking=LACKING[migration.stage], look=look
    )


def foreign_look(
    snapshot: Snapshot,
    migration: ForeignMigration,
    group: GroupDescription | None,
    survey: Survey | None,
    *,
    now: datetime,
) -> ForeignLook:
    journal = snapshot.transaction_journal
    is_read = journal.source is not SnapshotSource.NOTHING and journal.as_of_ms >= 0
    return ForeignLook(
        at=now,
        read_at=moment_of_ms(journal.as_of_ms) if is_read else None,
        ids=_ids(snapshot, migration.prefix, now_ms=int(now.timestamp() * 1000)),
        group_state=None if group is None else group.state,
        members=None
        if group is None
        else tuple(
            ForeignMember(member_id=one.member_id, client_id=one.client_id, host=one.host) for one in group.members
        ),
        versions={} if survey is None else {str(one.id): one.version for one in survey.brokers},
    )


def _ids(snapshot: Snapshot, prefix: str, *, now_ms: int) -> dict[str, ForeignId]:
    def one(live: LiveTransaction) -> ForeignId:
        topic = transaction_state.TOPIC
        rests = snapshot.clocks.age_at(topic, live.partition, live.timestamp_ms, now_ms=now_ms)
        at_ms = snapshot.clocks.ours_ms(topic, live.partition, live.timestamp_ms)
        return ForeignId(
            now=IdNow(
                producer_id=live.state.producer_id,
                producer_epoch=live.state.producer_epoch,
                is_open=live.is_open,
                was_aborted=live.state.status is TransactionStatus.COMPLETE_ABORT,
                partition=live.partition,
                offset=live.offset,
                at=moment_of_ms(at_ms) if at_ms >= 0 else None,
            ),
            rests_ms=None if rests is None else rests.least_ms,
            timeout_ms=live.state.timeout_ms,
            moves_with_commits=live.client_protocol is ClientProtocol.TV_2,
        )

    return {name: one(live) for name, live in sorted(snapshot.transactions.items()) if name.startswith(prefix)}


async def _log(
    uow: UnitOfWork, migration: ForeignMigration, *, by: Principal, why: str | None, now: datetime, outcome: str
) -> None:
    await command_log.record(
        uow,
        by=by,
        verb=Verb.START_MIGRATION,
        target=f"cluster:{migration.cluster}",
        why=why,
        now=now,
        outcome=f"foreign migration {migration.id}: {outcome}",
        details={"foreign_migration": migration.id, "stage": migration.stage},
    )
    uow.notify("migration", migration.id)
