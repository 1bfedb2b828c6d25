"""Files that pipelines wrote, as the references to them tell, and how far those were read.

Only the watch of files writes here; a server of the release before leaves them alone.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
_MOMENT = sa.DateTime(timezone=True)


def _pipeline_id() -> sa.Column[object]:
    return sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False)


def _of_pipeline(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["pipeline_id"], ["pipelines.id"], name=op.f(f"fk_{table}_pipeline_id"), ondelete="CASCADE"
    )


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _numbers(*names: str, default: str | None = None) -> list[sa.Column[int]]:
    given = None if default is None else sa.text(default)
    return [sa.Column(name, sa.BigInteger(), server_default=given, nullable=False) for name in names]


def _moments(*names: str, nullable: bool = False) -> list[sa.Column[object]]:
    return [sa.Column(name, _MOMENT, nullable=nullable) for name in names]


def upgrade() -> None:
    op.create_table(
        "written_files",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        _pipeline_id(),
        *_texts("path", "path_sha256", "root"),
        sa.Column("partition", _JSON, nullable=False),
        *_numbers("size_bytes", "records"),
        *_texts("sha256", "codec", "fingerprint"),
        sa.Column("inputs", _JSON, nullable=False),
        *_texts("transactional_id", "attempt"),
        *_numbers("checkpoint"),
        *_moments("opened_at", "closed_at", "uploaded_at", "referenced_at"),
        *_moments("committed_at", nullable=True),
        *_moments("seen_at"),
        *_texts("topic"),
        sa.Column("topic_partition", sa.Integer(), autoincrement=False, nullable=False),
        *_numbers("offset"),
        _of_pipeline("written_files"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_written_files")),
        sa.UniqueConstraint("pipeline_id", "path_sha256", name="uq_written_files_path"),
    )
    op.create_index("ix_written_files_referenced", "written_files", ["pipeline_id", "referenced_at", "id"])
    op.create_index("ix_written_files_order", "written_files", ["pipeline_id", "id"])
    op.create_index("ix_written_files_seen_at", "written_files", ["seen_at"])
    op.create_table(
        "file_partitions",
        _pipeline_id(),
        *_texts("partition_sha256"),
        sa.Column("partition", _JSON, nullable=False),
        *_numbers("files", "records", "size_bytes"),
        *_moments("first_at", "last_at"),
        _of_pipeline("file_partitions"),
        sa.PrimaryKeyConstraint("pipeline_id", "partition_sha256", name=op.f("pk_file_partitions")),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index("ix_file_partitions_last_at", "file_partitions", ["pipeline_id", "last_at"])
    op.create_table(
        "file_hours",
        _pipeline_id(),
        *_moments("hour"),
        *_numbers("files", "records", "size_bytes"),
        _of_pipeline("file_hours"),
        sa.PrimaryKeyConstraint("pipeline_id", "hour", name=op.f("pk_file_hours")),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "file_checkpoints",
        _pipeline_id(),
        *_texts("key", "transactional_id", "attempt"),
        *_numbers("checkpoint", "files", "records", "size_bytes"),
        *_moments("opened_at", "closed_at", "uploaded_at", "referenced_at"),
        *_moments("committed_at", nullable=True),
        *_moments("seen_at"),
        _of_pipeline("file_checkpoints"),
        sa.PrimaryKeyConstraint("pipeline_id", "key", name=op.f("pk_file_checkpoints")),
    )
    op.create_index("ix_file_checkpoints_referenced", "file_checkpoints", ["pipeline_id", "referenced_at", "key"])
    op.create_index("ix_file_checkpoints_seen_at", "file_checkpoints", ["seen_at"])
    op.create_table(
        "file_schemas",
        _pipeline_id(),
        *_texts("fingerprint", "schema"),
        *_numbers("files"),
        *_moments("first_at", "last_at"),
        _of_pipeline("file_schemas"),
        sa.PrimaryKeyConstraint("pipeline_id", "fingerprint", name=op.f("pk_file_schemas")),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_index("ix_file_schemas_first_at", "file_schemas", ["pipeline_id", "first_at", "fingerprint"])
    op.create_table(
        "file_watches",
        _pipeline_id(),
        *_moments("since"),
        *_moments("looked_at", nullable=True),
        *_texts("problem"),
        *_moments("problem_at", nullable=True),
        *_numbers("files", "records", "size_bytes", "strangers", default="0"),
        *_texts("stranger"),
        *_numbers("of_others", "repeated", default="0"),
        *_texts("repetition"),
        *_moments("repeated_at", nullable=True),
        _of_pipeline("file_watches"),
        sa.PrimaryKeyConstraint("pipeline_id", name=op.f("pk_file_watches")),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "file_readings",
        _pipeline_id(),
        *_texts("kafka_cluster_id", "topic"),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        *_texts("topic_id"),
        *_numbers("next_offset"),
        sa.Column("end_offset", sa.BigInteger(), nullable=True),
        *_moments("begun_at"),
        *_numbers("begun_offset"),
        *_moments("moved_at"),
        *_numbers("unread_offsets"),
        *_texts("begun_again"),
        _of_pipeline("file_readings"),
        sa.PrimaryKeyConstraint("pipeline_id", "kafka_cluster_id", "topic", "partition", name=op.f("pk_file_readings")),
        postgresql_with={"fillfactor": "50"},
    )


def downgrade() -> None:
    for table in (
        "file_readings",
        "file_watches",
        "file_schemas",
        "file_checkpoints",
        "file_hours",
        "file_partitions",
        "written_files",
    ):
        op.drop_table(table)
