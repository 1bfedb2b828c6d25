"""Database store of written files, once for each path, with their totals, checkpoints and schemas."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.pipelines.tables import pipelines
from app.core.runs.store.runs import cursor_moment
from app.kit.db.columns import JSON
from app.kit.db.store import DatabaseStore
from app.kit.errors import InvalidError
from app.kit.page import Page, decode_cursor, encode_cursor
from app.products.files.checkpoint import FileCheckpoint, checkpoints_of
from app.products.files.schema_history import FileSchema
from app.products.files.tables.files import file_checkpoints, file_hours, file_partitions, file_schemas, written_files
from app.products.files.totals import HourTotal, PartitionTotal, Total, by_hour, by_partition
from app.products.files.written_file import FileFilter, FileRecord, InputOffsets, WrittenFile, digest

_F = written_files.c
_PLAIN = tuple(name for name in WrittenFile.__struct_fields__ if name != "inputs")
_TIMES = ("opened_at", "closed_at", "uploaded_at", "referenced_at", "committed_at", "seen_at")
_FIGURES = ("files", "records", "size_bytes")
_ID = "(SELECT id FROM pipelines WHERE name = :pipeline)"
_FILE = """
    path text, path_sha256 text, root text, partition jsonb, size_bytes bigint, records bigint, sha256 text, codec text,
    fingerprint text, inputs jsonb, transactional_id text, attempt text, checkpoint bigint, opened_at timestamptz,
    closed_at timestamptz, uploaded_at timestamptz, referenced_at timestamptz, committed_at timestamptz,
    seen_at timestamptz, topic text, topic_partition integer, "offset" bigint
"""
_FILE_COLUMNS = ", ".join(line.split()[0] for line in _FILE.replace("\n", " ").split(","))
_GROWN = ", ".join(f"{name} = kept.{name} + excluded.{name}" for name in _FIGURES)
# One parameter for all rows, since binding twenty thousand takes the event loop a large part of a second.
_ADD = sa.text(
    f"""
    INSERT INTO written_files (pipeline_id, {_FILE_COLUMNS})
    SELECT {_ID}, {_FILE_COLUMNS} FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS given({_FILE})
    ON CONFLICT ON CONSTRAINT uq_written_files_path DO NOTHING RETURNING path_sha256
    """  # noqa: S608 - the names are constants
)
_COUNT_PARTITIONS = sa.text(
    f"""
    INSERT INTO file_partitions AS kept
        (pipeline_id, partition_sha256, partition, files, records, size_bytes, first_at, last_at)
    SELECT {_ID}, given.* FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS given(
        partition_sha256 text, partition jsonb, files bigint, records bigint, size_bytes bigint,
        first_at timestamptz, last_at timestamptz)
    ORDER BY partition_sha256
    ON CONFLICT ON CONSTRAINT pk_file_partitions DO UPDATE SET {_GROWN},
        first_at = least(kept.first_at, excluded.first_at), last_at = greatest(kept.last_at, excluded.last_at)
    """  # noqa: S608 - the names are constants
)
_COUNT_HOURS = sa.text(
    f"""
    INSERT INTO file_hours AS kept (pipeline_id, hour, files, records, size_bytes)
    SELECT {_ID}, given.* FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS given(
        hour timestamptz, files bigint, records bigint, size_bytes bigint)
    ORDER BY hour
    ON CONFLICT ON CONSTRAINT pk_file_hours DO UPDATE SET {_GROWN}
    """  # noqa: S608 - the names are constants
)
_COUNT_CHECKPOINTS = sa.text(
    f"""
    INSERT INTO file_checkpoints AS kept (pipeline_id, key, transactional_id, attempt, checkpoint, files, records,
        size_bytes, {", ".join(_TIMES)})
    SELECT {_ID}, given.* FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS given(
        key text, transactional_id text, attempt text, checkpoint bigint, files bigint, records bigint,
        size_bytes bigint, {", ".join(f"{name} timestamptz" for name in _TIMES)})
    ORDER BY key
    ON CONFLICT ON CONSTRAINT pk_file_checkpoints DO UPDATE SET {_GROWN},
        opened_at = least(kept.opened_at, excluded.opened_at),
        {", ".join(f"{name} = greatest(kept.{name}, excluded.{name})" for name in _TIMES[1:])}
    """  # noqa: S608 - the names are constants
)
_KEEP_SCHEMAS = sa.text(
    f"""
    INSERT INTO file_schemas AS kept (pipeline_id, fingerprint, schema, files, first_at, last_at)
    SELECT {_ID}, given.* FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS given(
        fingerprint text, schema text, files bigint, first_at timestamptz, last_at timestamptz)
    ORDER BY fingerprint
    ON CONFLICT ON CONSTRAINT pk_file_schemas DO UPDATE SET files = kept.files + excluded.files,
        first_at = least(kept.first_at, excluded.first_at), last_at = greatest(kept.last_at, excluded.last_at)
    """  # noqa: S608 - the names are constants
)


class Added(NamedTuple):
    """new: files that were not stored. repeated: the others, each with the place of the stored reference."""

    new: tuple[WrittenFile, ...]
    repeated: tuple[tuple[WrittenFile, str], ...]


class WrittenFileStore(DatabaseStore):
    """Files by pipeline and path, with their totals, checkpoints and schemas.

    app/products/files/service/receiving.py makes the texts storable.
    """

    async def add(self, pipeline: str, files: Sequence[WrittenFile]) -> Added:
        """Store the files whose path is new, the first one for each path."""
        first: dict[str, WrittenFile] = {}
        again: list[tuple[str, WrittenFile]] = []
        for file in files:
            key = digest(file.path)
            if first.setdefault(key, file) is not file:
                again.append((key, file))
        rows = [{**msgspec.structs.asdict(file), "path_sha256": key} for key, file in first.items()]
        made = {row.path_sha256 for row in await self._write(_ADD, pipeline, rows)}
        again += [(key, file) for key, file in first.items() if key not in made]
        places = await self._places(pipeline, [key for key, _ in again if key not in made])
        return Added(
            new=tuple(file for key, file in first.items() if key in made),
            repeated=tuple((file, places.get(key, first[key].place)) for key, file in again),
        )

    async def count(self, pipeline: str, files: Sequence[WrittenFile]) -> None:
        """Add to the totals by partition, by hour and by checkpoint."""
        partitions = by_partition(files)
        await self._write(
            _COUNT_PARTITIONS,
            pipeline,
            [_with_total(one, partition_sha256=key) for key, one in partitions.items()],
        )
        await self._write(_COUNT_HOURS, pipeline, [_with_total(one) for one in by_hour(files)])
        checkpoints = checkpoints_of(files)
        await self._write(_COUNT_CHECKPOINTS, pipeline, [_with_total(one, key=key) for key, one in checkpoints.items()])

    async def keep_schemas(self, pipeline: str, schemas: Sequence[FileSchema]) -> None:
        """Store new schemas, and add to the number of files of known ones."""
        rows = [{**msgspec.structs.asdict(one), "schema": msgspec.json.encode(one.schema).decode()} for one in schemas]
        await self._write(_KEEP_SCHEMAS, pipeline, rows)

    async def list(self, pipeline: str, wanted: FileFilter, *, after: str | None, limit: int) -> Page[FileRecord]:
        """Return files, newest `referenced_at` first."""
        statement = (
            sa.select(written_files)
            .where(_F.pipeline_id == _id_of(pipeline), *_matching(wanted))
            .order_by(_F.referenced_at.desc(), _F.id.desc())
            .limit(limit + 1)
        )
        if after is not None:
            at, number = decode_cursor(after, keys=2)
            last = sa.tuple_(sa.literal(cursor_moment(at)), sa.literal(_number(number), sa.BigInteger))
            statement = statement.where(sa.tuple_(_F.referenced_at, _F.id) < last)
        rows = await self._db.rows(statement)
        items = tuple(_record(row) for row in rows[:limit])
        last_row = rows[limit - 1] if len(rows) > limit else None
        cursor = None if last_row is None else encode_cursor(last_row.referenced_at.isoformat(), str(last_row.id))
        return Page(items=items, next_cursor=cursor)

    async def partitions(self, pipeline: str, *, limit: int) -> tuple[builtins.list[PartitionTotal], int]:
        """Return the partitions with the most bytes, and the number of kept partitions."""
        kept = file_partitions.c
        # A separate count, since a window function would sort complete rows.
        counted = sa.select(sa.func.count()).select_from(file_partitions).where(kept.pipeline_id == _id_of(pipeline))
        rows = await self._db.rows(
            sa.select(file_partitions, counted.scalar_subquery().label("all_of_them"))
            .where(kept.pipeline_id == _id_of(pipeline))
            .order_by(kept.size_bytes.desc(), kept.partition_sha256)
            .limit(limit)
        )
        found = [
            PartitionTotal(partition=row.partition, total=_total(row), first_at=row.first_at, last_at=row.last_at)
            for row in rows
        ]
        return found, rows[0].all_of_them if rows else 0

    async def hours(self, pipeline: str, *, since: datetime) -> builtins.list[HourTotal]:
        """Return hours with files, oldest first."""
        rows = await self._db.rows(
            sa.select(file_hours)
            .where(file_hours.c.pipeline_id == _id_of(pipeline), file_hours.c.hour >= since)
            .order_by(file_hours.c.hour)
        )
        return [HourTotal(hour=row.hour, total=_total(row)) for row in rows]

    async def checkpoints(self, pipeline: str, *, limit: int) -> builtins.list[FileCheckpoint]:
        """Return checkpoints, newest `referenced_at` first."""
        kept = file_checkpoints.c
        rows = await self._db.rows(
            sa.select(file_checkpoints)
            .where(kept.pipeline_id == _id_of(pipeline))
            .order_by(kept.referenced_at.desc(), kept.key.desc())
            .limit(limit)
        )
        plain = [name for name in FileCheckpoint.__struct_fields__ if name != "total"]
        return [FileCheckpoint(total=_total(row), **{name: getattr(row, name) for name in plain}) for row in rows]

    async def schemas(self, pipeline: str, *, limit: int) -> builtins.list[FileSchema]:
        """Return schemas, newest `first_at` first."""
        kept = file_schemas.c
        rows = await self._db.rows(
            sa.select(file_schemas)
            .where(kept.pipeline_id == _id_of(pipeline))
            .order_by(kept.first_at.desc(), kept.fingerprint.desc())
            .limit(limit)
        )
        return [
            FileSchema(
                fingerprint=row.fingerprint,
                schema=msgspec.json.decode(row.schema, type=dict[str, Any]),
                files=row.files,
                first_at=row.first_at,
                last_at=row.last_at,
            )
            for row in rows
        ]

    async def _write(
        self, statement: sa.TextClause, pipeline: str, rows: Sequence[dict[str, Any]]
    ) -> Sequence[sa.Row[Any]]:
        if not rows:
            return []
        result = await self._db.execute(statement, {"pipeline": pipeline, "rows": msgspec.json.encode(rows).decode()})
        return result.all() if result.returns_rows else []

    async def _places(self, pipeline: str, keys: Sequence[str]) -> dict[str, str]:
        """Return the places of the stored references, by the digest of the file's path."""
        if not keys:
            return {}
        rows = await self._db.rows(
            sa.select(written_files).where(
                _F.pipeline_id == _id_of(pipeline),
                _F.path_sha256 == sa.func.any(sa.literal(list(keys), postgresql.ARRAY(sa.Text))),
            )
        )
        return {row.path_sha256: _record(row).file.place for row in rows}


def _id_of(pipeline: str) -> sa.ScalarSelect[Any]:
    return sa.select(pipelines.c.id).where(pipelines.c.name == pipeline).scalar_subquery()


def _matching(wanted: FileFilter) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if wanted.partition:
        conditions.append(_F.partition.contains(sa.literal(dict(wanted.partition), JSON)))
    if wanted.since is not None:
        conditions.append(_F.referenced_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(_F.referenced_at < wanted.until)
    return conditions


def _number(text: str) -> int:
    """Return the id in a cursor. Raises InvalidError at field `after`."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise InvalidError("the cursor is invalid: use next_cursor unchanged", field="after")
    return int(text)


def _with_total(one: PartitionTotal | HourTotal | FileCheckpoint, **more: str) -> dict[str, Any]:
    row = msgspec.structs.asdict(one)
    total: Total = row.pop("total")
    return {**row, **msgspec.structs.asdict(total), **more}


def _total(row: sa.Row[Any]) -> Total:
    return Total(files=row.files, records=row.records, size_bytes=row.size_bytes)


def _record(row: sa.Row[Any]) -> FileRecord:
    inputs = msgspec.convert(row.inputs, tuple[InputOffsets, ...])
    return FileRecord(id=row.id, file=WrittenFile(inputs=inputs, **{name: getattr(row, name) for name in _PLAIN}))
