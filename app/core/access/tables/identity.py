"""The identity of this database."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.db.columns import UUID, metadata, text

database_identity = sa.Table(
    "database_identity",
    metadata,
    # One row: its key can only be true.
    sa.Column("single", sa.Boolean, primary_key=True, server_default=sa.true()),
    sa.Column("epoch", UUID, nullable=False, server_default=sa.text("gen_random_uuid()")),
    text("marker"),
    sa.CheckConstraint("single", name="single"),
)
