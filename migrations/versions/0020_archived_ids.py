"""Ids that a migration gave up are archived: since when, and by which.

A server of the release before, while both run, takes them for orphaned ones.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("transactional_ids", sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("transactional_ids", sa.Column("archived_by", sa.Uuid(as_uuid=False), nullable=True))
    op.create_index(op.f("ix_transactional_ids_archived_by"), "transactional_ids", ["archived_by"])
    op.create_check_constraint(
        op.f("ck_transactional_ids_archived"),
        "transactional_ids",
        "archived_by IS NULL OR archived_at IS NOT NULL",
    )
    op.create_foreign_key(
        op.f("fk_transactional_ids_archived_by"),
        "transactional_ids",
        "migrations",
        ["archived_by"],
        ["id"],
        ondelete="SET NULL",
    )


def downgrade() -> None:
    op.drop_constraint(op.f("fk_transactional_ids_archived_by"), "transactional_ids")
    op.drop_constraint(op.f("ck_transactional_ids_archived"), "transactional_ids")
    op.drop_index(op.f("ix_transactional_ids_archived_by"), "transactional_ids")
    op.drop_column("transactional_ids", "archived_by")
    op.drop_column("transactional_ids", "archived_at")
