"""The mapping store: ids of partitions beside those of tasks, who had which producer when, and how many ids there are.

A server of the release before, while both run, takes every id for a task's; it writes stretches without a producer.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.alter_column("transactional_ids", "ordinal", nullable=True)
    op.alter_column("transactional_ids", "task", nullable=True)
    op.add_column("transactional_ids", sa.Column("kind", sa.Text(), server_default=sa.text("'task'"), nullable=False))
    op.create_check_constraint(
        op.f("ck_transactional_ids_kind"), "transactional_ids", "kind IN ('imported', 'partition', 'task')"
    )
    op.create_check_constraint(
        op.f("ck_transactional_ids_place"), "transactional_ids", "num_nulls(ordinal, task) = 2 * (kind <> 'task')::int"
    )
    op.create_unique_constraint(
        "uq_transactional_ids_pipeline", "transactional_ids", ["kafka_cluster_id", "transactional_id", "pipeline_id"]
    )
    op.add_column("partition_mappings", sa.Column("assigned_id", sa.Text(), nullable=True))
    op.add_column("partition_mappings", sa.Column("origin", sa.Text(), nullable=True))
    op.create_check_constraint(
        op.f("ck_partition_mappings_assigned"), "partition_mappings", "num_nulls(assigned_id, origin) IN (0, 2)"
    )
    op.create_check_constraint(
        op.f("ck_partition_mappings_origin"), "partition_mappings", "origin IN ('formula', 'imported')"
    )
    # Deferred, since a pipeline's removal takes both tables' rows with it in an order of Postgres' own.
    op.create_foreign_key(
        "fk_partition_mappings_assigned_id",
        "partition_mappings",
        "transactional_ids",
        ["kafka_cluster_id", "assigned_id", "pipeline_id"],
        ["kafka_cluster_id", "transactional_id", "pipeline_id"],
        deferrable=True,
        initially="DEFERRED",
    )
    op.add_column("partition_ownerships", sa.Column("producer_id", sa.BigInteger(), nullable=True))
    op.add_column("partition_ownerships", sa.Column("epoch", sa.Integer(), nullable=True))
    op.add_column("partition_ownerships", sa.Column("heard_until", sa.DateTime(timezone=True), nullable=True))
    partition = ["kafka_cluster_id", "group_id", "topic", "partition"]
    op.create_index("ix_partition_ownerships_newest", "partition_ownerships", [*partition, sa.text("lower(during)")])
    op.create_index(
        "ix_partition_ownerships_open",
        "partition_ownerships",
        partition,
        postgresql_where=sa.text("upper_inf(during)"),
    )
    op.create_table(
        "id_counts",
        sa.Column("kafka_cluster_id", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ids", sa.Integer(), nullable=False),
        sa.Column("ours", sa.Integer(), nullable=False),
        sa.Column("orphaned", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("kafka_cluster_id", "at", name=op.f("pk_id_counts")),
    )


def downgrade() -> None:
    op.drop_table("id_counts")
    op.drop_index("ix_partition_ownerships_open", "partition_ownerships")
    op.drop_index("ix_partition_ownerships_newest", "partition_ownerships")
    op.drop_column("partition_ownerships", "heard_until")
    op.drop_column("partition_ownerships", "epoch")
    op.drop_column("partition_ownerships", "producer_id")
    op.drop_constraint("fk_partition_mappings_assigned_id", "partition_mappings")
    op.drop_column("partition_mappings", "origin")
    op.drop_column("partition_mappings", "assigned_id")
    op.drop_constraint("uq_transactional_ids_pipeline", "transactional_ids")
    # The release before knows tasks' ids only.
    op.execute("DELETE FROM transactional_ids WHERE kind <> 'task'")
    op.drop_constraint(op.f("ck_transactional_ids_place"), "transactional_ids")
    op.drop_column("transactional_ids", "kind")
    op.alter_column("transactional_ids", "task", nullable=False)
    op.alter_column("transactional_ids", "ordinal", nullable=False)
