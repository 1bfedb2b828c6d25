"""The tables of audits, audit plans, and counters of audits."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from app.kit.db.columns import UUID, generated_uuid, integer, json, metadata, moment, one_of, quoted, text
from app.products.audits.audit import ENDED, AuditState
from app.products.audits.result import AuditVerdict

audits = sa.Table(
    "audits",
    metadata,
    generated_uuid("id"),
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), nullable=False),
    integer("revision"),
    text("state"),
    moment("since"),
    moment("asked_at"),
    text("asked_by"),
    sa.Column("is_scheduled", sa.Boolean, nullable=False),
    json("window"),
    json("id_place"),
    json("source_id_place", nullable=True),
    integer("padding_s"),
    moment("wait_until"),
    text("reason", nullable=True),
    text("host", nullable=True),
    integer("jvm_pid", nullable=True),
    integer("python_pid", nullable=True),
    moment("process_started_at", nullable=True),
    text("log_path", nullable=True),
    text("application_id", nullable=True),
    moment("submitted_at", nullable=True),
    json("progress", nullable=True),
    text("stops_as", nullable=True),
    moment("ended_at", nullable=True),
    json("result", nullable=True),
    text("verdict", nullable=True),
    text("token_sha256", nullable=True),
    json("comparison", nullable=True),
    one_of("state", AuditState),
    sa.CheckConstraint(f"(state IN ({quoted(ENDED)})) = (ended_at IS NOT NULL)", name="end"),
    sa.CheckConstraint("(state = 'done') = (result IS NOT NULL)", name="result"),
    sa.UniqueConstraint("token_sha256"),
    sa.Index("ix_audits_asked", "asked_at", "id"),
    sa.Index("ix_audits_pipeline_asked", "pipeline_id", "asked_at", "id"),
    sa.Index("ix_audits_ended_at", "ended_at"),
    sa.Index(
        "ix_audits_broken",
        "ended_at",
        "pipeline_id",
        postgresql_where=sa.text(f"verdict = '{AuditVerdict.BROKEN}'"),
    ),
)
sa.Index(
    "uq_audits_living",
    audits.c.pipeline_id,
    unique=True,
    postgresql_where=sa.text(f"state NOT IN ({quoted(ENDED)})"),
)


def _plans(name: str, *more: sa.Column[Any]) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), primary_key=True),
        json("id_place"),
        json("source_id_place", nullable=True),
        integer("padding_s"),
        integer("every_s", nullable=True),
        integer("tolerance_s"),
        moment("decided_until"),
        moment("shown_until", nullable=True),
        moment("changed_at"),
        text("changed_by"),
        *more,
    )


audit_plans = _plans("audit_plans")
comparison_plans = _plans("comparison_plans", json("comparison"))

# Counters for Prometheus must only grow, but audits are deleted after their retention.
audit_counts = sa.Table(
    "audit_counts",
    metadata,
    sa.Column("pipeline_id", UUID, sa.ForeignKey("pipelines.id", ondelete="CASCADE"), primary_key=True),
    text("what", primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
)
