"""Translate SQLAlchemy's and psycopg's errors, in this one place; callers catch Fenceline's only."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
from sqlalchemy import exc

from app.kit.errors import ConflictError, FencelineError, InvalidError, UnavailableError

BROKEN_RULES: Mapping[str, str] = {
    "pk_clusters": "a cluster with this name is registered already: take another name",
    "uq_pipelines_name": "a pipeline with this name exists already: change it, or take another name",
    "uq_pipelines_kafka_cluster_id_group_id": (
        "another pipeline on this Kafka cluster reads with the same consumer group: give this one a group of its own"
    ),
    "pk_revisions": "the pipeline was changed meanwhile: review that change, then change it again",
    "fk_pipelines_cluster": "a pipeline uses the cluster: delete its pipelines first, or change their cluster",
    "pk_transactional_ids": "one of the transactional ids belongs to another pipeline on this Kafka cluster",
    "uq_runs_live": "the pipeline has a run already: drain it first, or restart it",
    "uq_instances_living": "an earlier lease of this instance has not ended: wait for its end before a new lease",
    "pk_instances": "another server granted this lease already",
    "instances_lease_grows": "lease numbers only grow, and this one does not",
    "instances_end_is_final": "an ended instance cannot change",
    "uq_run_tokens_run_id_ordinal_lease": "this lease has its run token already: another server is submitting it",
    "ex_partition_ownerships_during": "another task owns this partition at the same time",
    "fk_partition_mappings_assigned_id": "an assigned id belongs to no pipeline, or to another one than its partition",
    "uq_tokens_valid_name": "a valid token with this name exists already: revoke it first, or take another name",
    "uq_audits_living": "an audit of this pipeline is not over yet: wait for it, or stop it",
    "uq_orphan_looks_living": "an orphan scan or collection of this pipeline is not over yet: wait for it",
    "pk_webhooks": "a webhook with this name exists already: change it, or take another name",
    "uq_drills_disturbing": "another drill is not over yet: wait for its end, or stop it",
    "uq_migrations_open": "another migration of this pipeline is not over yet: let it end, or abort it",
    "uq_foreign_migrations_open": "this group is watched already: let that migration end first",
    "rows_are_immutable": "this row is immutable",
}
"""A sentence for each constraint and trigger that a request can run into; a test holds the names against the schema."""

_FIELDS = {
    "pk_clusters": "name",
    "uq_pipelines_name": "name",
    "uq_pipelines_kafka_cluster_id_group_id": "group_id",
    "pk_transactional_ids": "transactional_id_prefix",
    "uq_tokens_valid_name": "name",
    "pk_webhooks": "name",
}
_TRY_AGAIN = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure, psycopg.errors.LockNotAvailable)


def translated(error: Exception, *, where: str, tried_s: float) -> FencelineError | None:
    """Return the Fenceline error for a library's, or None for a bug, which is raised as it is.

    where: `host:port` of the database; tried_s: how long the call took.
    """
    original = error.orig if isinstance(error, exc.DBAPIError) else error
    name = original.diag.constraint_name if isinstance(original, psycopg.Error) else None
    if name is not None and name in BROKEN_RULES:
        return ConflictError(BROKEN_RULES[name], field=_FIELDS.get(name))
    if isinstance(original, _TRY_AGAIN):
        return UnavailableError(
            f"Postgres at {where} had a conflict with other changes ({_first_line(original)}): try again"
        )
    if isinstance(original, (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)):
        return UnavailableError(
            f"the schema of the database at {where} is older than this release ({_first_line(original)}). Run "
            "`fenceline db upgrade`, or start a server"
        )
    if isinstance(original, (psycopg.DataError, UnicodeEncodeError)):
        return InvalidError(f"a value cannot be stored: {_first_line(original)}")
    lost = isinstance(error, exc.DBAPIError) and error.connection_invalidated
    if lost or isinstance(original, (psycopg.OperationalError, exc.TimeoutError, OSError)):
        return UnavailableError(
            f"Postgres at {where} does not answer: {_first_line(original)} (tried for {tried_s:.1f} s). "
            "Check that it runs and that FENCELINE_DATABASE_URL names it"
        )
    return None


def _first_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
