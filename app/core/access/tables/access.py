"""Credentials by the SHA-256 of their secret, and stored answers of repeated commands."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.access import Role
from app.kit.db.columns import UUID, generated_uuid, integer, json, metadata, moment, one_of, text

tokens = sa.Table(
    "tokens",
    metadata,
    generated_uuid("id"),
    text("name"),
    text("role"),
    text("secret_sha256"),
    moment("created_at"),
    text("created_by"),
    moment("last_used_at", nullable=True),
    moment("revoked_at", nullable=True),
    sa.UniqueConstraint("secret_sha256"),
    one_of("role", Role),
)
sa.Index("uq_tokens_valid_name", tokens.c.name, unique=True, postgresql_where=tokens.c.revoked_at.is_(None))

one_time_links = sa.Table(
    "one_time_links",
    metadata,
    text("secret_sha256", primary_key=True),
    text("name"),
    text("role"),
    moment("created_at"),
    text("created_by", nullable=True),
    moment("expires_at"),
    moment("used_at", nullable=True),
    one_of("role", Role),
)

sessions = sa.Table(
    "sessions",
    metadata,
    generated_uuid("id"),
    text("secret_sha256"),
    text("name"),
    text("role"),
    sa.Column("token_id", UUID, sa.ForeignKey("tokens.id", ondelete="CASCADE"), index=True),
    moment("created_at"),
    moment("expires_at"),
    moment("revoked_at", nullable=True),
    moment("last_used_at", nullable=True),
    moment("link_created_at", nullable=True),
    text("link_created_by", nullable=True),
    sa.UniqueConstraint("secret_sha256"),
    one_of("role", Role),
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    text("principal", primary_key=True),
    text("key", primary_key=True),
    text("request_sha256"),
    integer("status", nullable=True),
    json("body", nullable=True),
    moment("created_at"),
    sa.Index("ix_idempotency_keys_created_at", "created_at"),
)
