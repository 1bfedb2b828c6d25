"""Database stores of audits and audit plans."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.pipelines.tables import pipelines
from app.core.runs.instance import ENDED
from app.core.runs.store.runs import cursor_moment
from app.core.runs.tables.runs import instances, runs
from app.kit.db.columns import UUID
from app.kit.db.store import DatabaseStore
from app.kit.errors import NotFoundError
from app.kit.page import Page, decode_cursor, encode_cursor
from app.kit.storable import storable
from app.products.audits.audit import KEPT_FOR, Audit, AuditProgress, AuditState
from app.products.audits.comparison import Comparison
from app.products.audits.doubts import InForce
from app.products.audits.plan import AuditPlan
from app.products.audits.result import AuditResult, AuditVerdict
from app.products.audits.specification import IdPlace, Window
from app.products.audits.tables import audit_counts, audit_plans, audits, comparison_plans

_A = audits.c
_BULKY = ("examples", "ranges", "partitions")
_COLUMNS = [column for column in audits.c if column.name not in ("result", "token_sha256")]
_NAMED = (pipelines.c.name, pipelines.c.cluster)
_SELECT = sa.select(*_COLUMNS, _A.result, *_NAMED).join(pipelines, pipelines.c.id == _A.pipeline_id)
_SELECT_SHORT = sa.select(
    *_COLUMNS, _A.result.op("-")(sa.literal(list(_BULKY), postgresql.ARRAY(sa.Text))).label("result"), *_NAMED
).join(pipelines, pipelines.c.id == _A.pipeline_id)
_PLAIN = (
    "revision",
    "state",
    "since",
    "asked_at",
    "asked_by",
    "is_scheduled",
    "padding_s",
    "wait_until",
    "reason",
    "host",
    "jvm_pid",
    "python_pid",
    "process_started_at",
    "log_path",
    "application_id",
    "submitted_at",
    "stops_as",
    "ended_at",
)


class AuditStore(DatabaseStore):
    async def add(self, audit: Audit) -> Audit:
        """Store a new audit with an id. Raises ConflictError if the pipeline has an audit that has not ended."""
        statement = sa.insert(audits).values(pipeline_id=_pipeline_id(audit.pipeline), **_values(audit))
        row = (await self._db.execute(statement.returning(_A.id))).one()
        return await self.get(row.id)

    async def get(self, audit_id: str, *, for_update: bool = False) -> Audit:
        if for_update:
            await self._db.execute(sa.select(_A.id).where(_A.id == audit_id).with_for_update(key_share=True))
        row = await self._db.row(_SELECT.where(_A.id == audit_id))
        if row is None:
            raise NotFoundError(f"audit {audit_id} does not exist; `fenceline audits list` lists all")
        return _audit(row)

    async def list(self, *, pipeline: str | None, after: str | None, limit: int) -> Page[Audit]:
        """Return audits, newest first, without examples, ranges and partitions."""
        statement = _SELECT_SHORT.order_by(_A.asked_at.desc(), _A.id.desc()).limit(limit + 1)
        if pipeline is not None:
            statement = statement.where(pipelines.c.name == pipeline)
        if after is not None:
            asked_at, audit_id = decode_cursor(after, keys=2)
            last = sa.tuple_(sa.literal(cursor_moment(asked_at)), sa.literal(audit_id, UUID))
            statement = statement.where(sa.tuple_(_A.asked_at, _A.id) < last)
        found = [_audit(row) for row in await self._db.rows(statement)]
        items = tuple(found[:limit])
        more = len(found) > limit
        return Page(
            items=items, next_cursor=encode_cursor(items[-1].asked_at.isoformat(), items[-1].id) if more else None
        )

    async def living(self) -> builtins.list[Audit]:
        """Return the audits that have not ended, oldest first."""
        rows = await self._db.rows(_SELECT.where(_A.ended_at.is_(None)).order_by(_A.asked_at, _A.id))
        return [_audit(row) for row in rows]

    async def find_living(self, pipeline: str) -> Audit | None:
        row = await self._db.row(_SELECT.where(pipelines.c.name == pipeline, _A.ended_at.is_(None)))
        return None if row is None else _audit(row)

    async def newest_comparison(self, pipeline: str) -> Audit | None:
        """Return the pipeline's newest comparison, without examples, ranges and partitions."""
        of_pipeline = _SELECT_SHORT.where(pipelines.c.name == pipeline, _A.comparison.is_not(None))
        row = await self._db.row(of_pipeline.order_by(_A.asked_at.desc(), _A.id.desc()).limit(1))
        return None if row is None else _audit(row)

    async def broken(self, *, since: datetime) -> dict[str, int]:
        """Return the number of broken audits that ended since then, by pipeline; pipelines without one are omitted."""
        rows = await self._db.rows(
            sa.select(pipelines.c.name, sa.func.count().label("found"))
            .join(pipelines, pipelines.c.id == _A.pipeline_id)
            # A literal, as in the predicate of the partial index.
            .where(_A.verdict == sa.literal_column(f"'{AuditVerdict.BROKEN}'"), _A.ended_at >= since)
            .group_by(pipelines.c.name)
        )
        return {row.name: row.found for row in rows}

    async def in_force(self, pipeline: str, begin: datetime | None, until: datetime | None) -> InForce:
        """Return the revisions with instances in this range, by leases. None: from the first start, or up to now."""
        of_pipeline = runs.c.pipeline_id == _pipeline_id(pipeline)
        lived = [of_pipeline, instances.c.claimed_at.is_not(None)]
        if until is not None:
            lived.append(instances.c.claimed_at < until)
        if begin is not None:
            lived.append(instances.c.state.not_in(sorted(ENDED)) | (instances.c.since > begin))
        revisions = (
            sa.select(instances.c.revision)
            .join(runs, runs.c.id == instances.c.run_id)
            .where(*lived)
            .distinct()
            .order_by(instances.c.revision.desc())
        )
        (row,) = await self._db.rows(
            sa.select(
                sa.func.array(revisions.scalar_subquery(), type_=postgresql.ARRAY(sa.Integer)).label("revisions"),
                sa.select(sa.func.min(runs.c.started_at)).where(of_pipeline).scalar_subquery().label("begun_at"),
            )
        )
        is_before = row.begun_at is None or (begin is not None and row.begun_at <= begin)
        return InForce(revisions=tuple(row.revisions), begun_at=None if is_before else row.begun_at)

    async def save(self, audit: Audit) -> None:
        """Store an audit, without its progress."""
        await self._db.execute(sa.update(audits).where(_A.id == audit.id).values(**_values(audit)))

    async def save_progress(self, audit_id: str, progress: AuditProgress) -> None:
        told = msgspec.to_builtins(storable(progress))
        await self._db.execute(sa.update(audits).where(_A.id == audit_id).values(progress=told))

    async def keep_token(self, audit_id: str, secret_sha256: str) -> None:
        """Store the token for the next driver, which replaces the previous one."""
        await self._db.execute(sa.update(audits).where(_A.id == audit_id).values(token_sha256=secret_sha256))

    async def find_by_token(self, secret_sha256: str) -> str | None:
        """Return the id of the token's audit."""
        row = await self._db.row(sa.select(_A.id).where(_A.token_sha256 == secret_sha256))
        return None if row is None else row.id

    async def count(self, pipeline: str, numbers: Mapping[str, int]) -> None:
        """Add to the pipeline's counters, which only grow."""
        rows = [{"what": what, "number": number} for what, number in sorted(numbers.items()) if number]
        if not rows:
            return
        statement = postgresql.insert(audit_counts).values([{"pipeline_id": _pipeline_id(pipeline), **r} for r in rows])
        await self._db.execute(
            statement.on_conflict_do_update(
                constraint="pk_audit_counts", set_={"number": audit_counts.c.number + statement.excluded.number}
            )
        )

    async def counts(self) -> dict[str, dict[str, int]]:
        """Return all counters, by pipeline."""
        rows = await self._db.rows(
            sa.select(pipelines.c.name, audit_counts.c.what, audit_counts.c.number).join(
                pipelines, pipelines.c.id == audit_counts.c.pipeline_id
            )
        )
        found: dict[str, dict[str, int]] = {}
        for row in rows:
            found.setdefault(row.name, {})[row.what] = row.number
        return found

    async def expire(self, *, now: datetime) -> dict[str, int]:
        """Remove audits that ended long ago; the number of rows by table."""
        result = await self._db.execute(sa.delete(audits).where(_A.ended_at < now - KEPT_FOR))
        return {"audits": result.rowcount}


class AuditPlanStore(DatabaseStore):
    """A pipeline has at most one plan for audits, and one for comparisons."""

    async def find(self, pipeline: str, *, of_comparisons: bool = False, for_update: bool = False) -> AuditPlan | None:
        table = _table(of_comparisons=of_comparisons)
        statement = _plans(table).where(pipelines.c.name == pipeline)
        if for_update:
            statement = statement.with_for_update(of=table)
        row = await self._db.row(statement)
        return None if row is None else _plan(row)

    async def save(self, plan: AuditPlan) -> None:
        values = {
            "id_place": msgspec.to_builtins(plan.id_place),
            "source_id_place": msgspec.to_builtins(plan.source_id_place),
            **{name: getattr(plan, name) for name in _PLAN},
        }
        if plan.comparison is not None:
            values["comparison"] = msgspec.to_builtins(plan.comparison)
        table = _table(of_comparisons=plan.comparison is not None)
        statement = postgresql.insert(table).values(pipeline_id=_pipeline_id(plan.pipeline), **values)
        await self._db.execute(statement.on_conflict_do_update(constraint=f"pk_{table.name}", set_=values))

    async def remove(self, pipeline: str, *, of_comparisons: bool = False) -> None:
        table = _table(of_comparisons=of_comparisons)
        await self._db.execute(sa.delete(table).where(table.c.pipeline_id == _pipeline_id(pipeline)))

    async def scheduled(self) -> list[AuditPlan]:
        """Return the plans with a schedule, for audits and comparisons, ordered by pipeline."""
        found: list[AuditPlan] = []
        for table in (audit_plans, comparison_plans):
            statement = _plans(table).where(table.c.every_s.is_not(None)).order_by(pipelines.c.name)
            found += [_plan(row) for row in await self._db.rows(statement)]
        return sorted(found, key=lambda plan: plan.pipeline)


_PLAN = ("padding_s", "every_s", "tolerance_s", "decided_until", "shown_until", "changed_at", "changed_by")


def _table(*, of_comparisons: bool) -> sa.Table:
    return comparison_plans if of_comparisons else audit_plans


def _plans(table: sa.Table) -> sa.Select[Any]:
    comparison = table.c.comparison if table is comparison_plans else sa.null().label("comparison")
    columns = [column for column in table.c if column.name != "comparison"]
    return sa.select(*columns, comparison, pipelines.c.name).join(pipelines, pipelines.c.id == table.c.pipeline_id)


def _pipeline_id(name: str) -> sa.ScalarSelect[Any]:
    return sa.select(pipelines.c.id).where(pipelines.c.name == name).scalar_subquery()


def _values(audit: Audit) -> dict[str, Any]:
    audit = storable(audit)
    return {
        **{name: getattr(audit, name) for name in _PLAIN},
        "window": msgspec.to_builtins(audit.window),
        "id_place": msgspec.to_builtins(audit.id_place),
        "source_id_place": msgspec.to_builtins(audit.source_id_place),
        "comparison": msgspec.to_builtins(audit.comparison),
        "result": msgspec.to_builtins(audit.result),
        "verdict": audit.verdict,
    }


def _audit(row: sa.Row[Any]) -> Audit:
    plain = {name: getattr(row, name) for name in _PLAIN if name not in ("state", "stops_as")}
    return Audit(
        id=row.id,
        pipeline=row.name,
        cluster=row.cluster,
        state=AuditState(row.state),
        stops_as=None if row.stops_as is None else AuditState(row.stops_as),
        window=msgspec.convert(row.window, Window),
        id_place=msgspec.convert(row.id_place, IdPlace),
        source_id_place=msgspec.convert(row.source_id_place, IdPlace | None),
        comparison=msgspec.convert(row.comparison, Comparison | None),
        progress=msgspec.convert(row.progress, AuditProgress | None),
        result=msgspec.convert(row.result, AuditResult | None),
        **plain,
    )


def _plan(row: sa.Row[Any]) -> AuditPlan:
    return AuditPlan(
        pipeline=row.name,
        id_place=msgspec.convert(row.id_place, IdPlace),
        source_id_place=msgspec.convert(row.source_id_place, IdPlace | None),
        comparison=msgspec.convert(row.comparison, Comparison | None),
        **{name: getattr(row, name) for name in _PLAN},
    )
