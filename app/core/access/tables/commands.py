"""The command log."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.access import Role
from app.kit.db.columns import json, metadata, moment, one_of, text

command_log = sa.Table(
    "command_log",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    moment("at"),
    text("who"),
    text("role"),
    text("verb"),
    text("target"),
    text("why", nullable=True),
    json("details"),
    text("outcome"),
    one_of("role", Role),
    sa.Index("ix_command_log_target", "target", "id"),
)
