"""The tables of written files, their totals, checkpoints and schemas, and the progress of reading."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.db.columns import UUID, integer, json, metadata, moment, text


def _pipeline_id(*, primary_key: bool = False) -> sa.Column[object]:
    return sa.Column(
        "pipeline_id",
        UUID,
        sa.ForeignKey("pipelines.id", ondelete="CASCADE"),
        nullable=False,
        primary_key=primary_key,
    )


def _number(name: str, *, nullable: bool = False, is_counted: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable, server_default=sa.text("0") if is_counted else None)


def _total() -> list[sa.Column[int]]:
    return [_number(name) for name in ("files", "records", "size_bytes")]


written_files = sa.Table(
    "written_files",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    _pipeline_id(),
    text("path"),
    text("path_sha256"),
    text("root"),
    json("partition"),
    _number("size_bytes"),
    _number("records"),
    text("sha256"),
    text("codec"),
    text("fingerprint"),
    json("inputs"),
    text("transactional_id"),
    text("attempt"),
    _number("checkpoint"),
    moment("opened_at"),
    moment("closed_at"),
    moment("uploaded_at"),
    moment("referenced_at"),
    moment("committed_at", nullable=True),
    moment("seen_at"),
    text("topic"),
    integer("topic_partition"),
    _number("offset"),
    # By digest, since a path may be longer than an index entry.
    sa.UniqueConstraint("pipeline_id", "path_sha256", name="uq_written_files_path"),
    sa.Index("ix_written_files_referenced", "pipeline_id", "referenced_at", "id"),
    sa.Index("ix_written_files_order", "pipeline_id", "id"),
    sa.Index("ix_written_files_seen_at", "seen_at"),
)

file_partitions = sa.Table(
    "file_partitions",
    metadata,
    _pipeline_id(primary_key=True),
    text("partition_sha256", primary_key=True),
    json("partition"),
    *_total(),
    moment("first_at"),
    moment("last_at"),
    sa.Index("ix_file_partitions_last_at", "pipeline_id", "last_at"),
    # A row of an active partition is updated every few seconds.
    postgresql_with={"fillfactor": "80"},
)

file_hours = sa.Table(
    "file_hours",
    metadata,
    _pipeline_id(primary_key=True),
    sa.Column("hour", sa.DateTime(timezone=True), primary_key=True),
    *_total(),
    postgresql_with={"fillfactor": "50"},
)

file_checkpoints = sa.Table(
    "file_checkpoints",
    metadata,
    _pipeline_id(primary_key=True),
    text("key", primary_key=True),
    text("transactional_id"),
    text("attempt"),
    _number("checkpoint"),
    *_total(),
    moment("opened_at"),
    moment("closed_at"),
    moment("uploaded_at"),
    moment("referenced_at"),
    moment("committed_at", nullable=True),
    moment("seen_at"),
    sa.Index("ix_file_checkpoints_referenced", "pipeline_id", "referenced_at", "key"),
    sa.Index("ix_file_checkpoints_seen_at", "seen_at"),
)

file_schemas = sa.Table(
    "file_schemas",
    metadata,
    _pipeline_id(primary_key=True),
    text("fingerprint", primary_key=True),
    # As text, since JSONB does not keep the order of keys and has no U+0000.
    text("schema"),
    _number("files"),
    moment("first_at"),
    moment("last_at"),
    sa.Index("ix_file_schemas_first_at", "pipeline_id", "first_at", "fingerprint"),
    postgresql_with={"fillfactor": "50"},
)

file_watches = sa.Table(
    "file_watches",
    metadata,
    _pipeline_id(primary_key=True),
    moment("since"),
    moment("looked_at", nullable=True),
    text("problem"),
    moment("problem_at", nullable=True),
    *(_number(name, is_counted=True) for name in ("files", "records", "size_bytes")),
    _number("strangers", is_counted=True),
    text("stranger"),
    _number("of_others", is_counted=True),
    _number("repeated", is_counted=True),
    text("repetition"),
    moment("repeated_at", nullable=True),
    postgresql_with={"fillfactor": "50"},
)

file_readings = sa.Table(
    "file_readings",
    metadata,
    _pipeline_id(primary_key=True),
    text("kafka_cluster_id", primary_key=True),
    text("topic", primary_key=True),
    integer("partition", primary_key=True),
    text("topic_id"),
    _number("next_offset"),
    _number("end_offset", nullable=True),
    moment("begun_at"),
    _number("begun_offset"),
    moment("moved_at"),
    _number("unread_offsets"),
    text("begun_again"),
    postgresql_with={"fillfactor": "50"},
)
