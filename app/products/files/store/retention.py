"""Retention of the data about files: by age, and by number for each pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import sqlalchemy as sa

from app.kit.db.store import DatabaseStore
from app.products.files import checkpoint, schema_history, totals, written_file


class _Bounds(NamedTuple):
    """aged_by: column of the age. ordered_by: column by which the newest `most` rows of a pipeline are kept."""

    table: str
    aged_by: str
    kept_for: timedelta
    ordered_by: str = ""
    most: int = 0


BOUNDS: Sequence[_Bounds] = (
    _Bounds("written_files", "seen_at", written_file.KEPT_FOR, "id", written_file.MOST_FILES),
    _Bounds("file_partitions", "last_at", totals.PARTITIONS_KEPT_FOR, "last_at", totals.MOST_PARTITIONS),
    _Bounds("file_hours", "hour", totals.HOURS_KEPT_FOR),
    _Bounds("file_checkpoints", "seen_at", checkpoint.KEPT_FOR, "referenced_at", checkpoint.MOST_CHECKPOINTS),
    _Bounds("file_schemas", "last_at", schema_history.KEPT_FOR, "last_at", schema_history.MOST_SCHEMAS),
)
_IS_ANY_WATCHED = sa.text("SELECT EXISTS (SELECT FROM file_watches)")


class FileRetentionStore(DatabaseStore):
    async def expire(self, *, now: datetime) -> dict[str, int]:
        """Delete old rows, and return their number by table. It stops early if no pipeline has had a file sink."""
        if not (await self._db.execute(_IS_ANY_WATCHED)).scalar_one():
            return {}
        removed: dict[str, int] = {}
        for bounds in BOUNDS:
            old = await self._db.execute(_older(bounds), {"before": now - bounds.kept_for})
            removed[bounds.table] = old.rowcount
            if bounds.most:
                beyond = await self._db.execute(_beyond_the_newest(bounds), {"most": bounds.most})
                removed[bounds.table] += beyond.rowcount
        return removed


def _older(bounds: _Bounds) -> sa.TextClause:
    return sa.text(
        f"""
        DELETE FROM {bounds.table} AS old USING file_watches AS watch
        WHERE old.pipeline_id = watch.pipeline_id AND old.{bounds.aged_by} < :before
        """  # noqa: S608 - the names are constants
    )


def _beyond_the_newest(bounds: _Bounds) -> sa.TextClause:
    return sa.text(
        f"""
        DELETE FROM {bounds.table} AS old USING file_watches AS watch CROSS JOIN LATERAL (
            SELECT newest.{bounds.ordered_by} AS place FROM {bounds.table} AS newest
            WHERE newest.pipeline_id = watch.pipeline_id
            ORDER BY newest.{bounds.ordered_by} DESC OFFSET :most LIMIT 1) AS last
        WHERE old.pipeline_id = watch.pipeline_id AND old.{bounds.ordered_by} <= last.place
        """  # noqa: S608 - the names are constants
    )
