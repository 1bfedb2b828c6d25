"""The first tables.

Beyond what the tables can say, three truths are held here by triggers: what is written once stays as it is,
lease numbers grow, and the end of an instance is final. Errors carry names that app/kit/db/errors.py turns into
sentences.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


IMMUTABLE = ("revisions", "transform_sources", "command_log")


def upgrade() -> None:
    # Equality inside a GiST index, for stretches of time that cannot overlap; trusted, so an owner may create it.
    op.execute("CREATE EXTENSION IF NOT EXISTS btree_gist")
    op.create_table(
        "clusters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kafka_cluster_id", sa.Text(), nullable=False),
        sa.Column("bootstrap_servers", sa.Text(), nullable=False),
        sa.Column("client_config", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_clusters")),
    )
    op.create_table(
        "command_log",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("details", postgresql.JSONB(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "role IN ('administrator', 'author', 'operator', 'viewer')", name=op.f("ck_command_log_role")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_command_log")),
    )
    op.create_index("ix_command_log_target", "command_log", ["target", "id"], unique=False)
    op.create_table(
        "database_identity",
        sa.Column("single", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("epoch", sa.Uuid(as_uuid=False), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("marker", sa.Text(), nullable=False),
        sa.CheckConstraint("single", name=op.f("ck_database_identity_single")),
        sa.PrimaryKeyConstraint("single", name=op.f("pk_database_identity")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_sha256", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", postgresql.JSONB(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("principal", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"], unique=False)
    op.create_table(
        "one_time_links",
        sa.Column("secret_sha256", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "role IN ('administrator', 'author', 'operator', 'viewer')", name=op.f("ck_one_time_links_role")
        ),
        sa.PrimaryKeyConstraint("secret_sha256", name=op.f("pk_one_time_links")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Uuid(as_uuid=False), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("secret_sha256", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("role IN ('administrator', 'author', 'operator', 'viewer')", name=op.f("ck_tokens_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("secret_sha256", name=op.f("uq_tokens_secret_sha256")),
    )
    op.create_index(
        "uq_tokens_valid_name", "tokens", ["name"], unique=True, postgresql_where=sa.text("revoked_at IS NULL")
    )
    op.create_table(
        "transform_sources",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "sha256 = encode(sha256(convert_to(source, 'UTF8')), 'hex')", name=op.f("ck_transform_sources_content")
        ),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_transform_sources")),
    )
    op.create_table(
        "pipelines",
        sa.Column("id", sa.Uuid(as_uuid=False), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("kafka_cluster_id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("current_revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_pipelines_cluster")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pipelines")),
        sa.UniqueConstraint("kafka_cluster_id", "group_id", name=op.f("uq_pipelines_kafka_cluster_id_group_id")),
        sa.UniqueConstraint("name", name=op.f("uq_pipelines_name")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.Uuid(as_uuid=False), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("secret_sha256", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("role IN ('administrator', 'author', 'operator', 'viewer')", name=op.f("ck_sessions_role")),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_sessions_token_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("secret_sha256", name=op.f("uq_sessions_secret_sha256")),
    )
    op.create_index(op.f("ix_sessions_token_id"), "sessions", ["token_id"], unique=False)
    op.create_table(
        "partition_mappings",
        sa.Column("kafka_cluster_id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("transactional_id", sa.Text(), nullable=True),
        sa.Column("owner_run_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("owner_ordinal", sa.Integer(), nullable=True),
        sa.Column("owner_lease", sa.Integer(), nullable=True),
        sa.Column("owner_task", sa.Integer(), nullable=True),
        sa.Column("owner_attempt", sa.Integer(), nullable=True),
        sa.Column("owner_host", sa.Text(), nullable=True),
        sa.Column("producer_id", sa.BigInteger(), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "num_nulls(owner_run_id, owner_ordinal, owner_lease, owner_task, owner_attempt, owner_host) IN (0, 6)",
            name=op.f("ck_partition_mappings_owner"),
        ),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_partition_mappings_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint(
            "kafka_cluster_id", "group_id", "topic", "partition", name=op.f("pk_partition_mappings")
        ),
    )
    op.create_index(
        "ix_partition_mappings_owner",
        "partition_mappings",
        ["owner_run_id", "owner_ordinal", "owner_task"],
        unique=False,
    )
    op.create_index(op.f("ix_partition_mappings_pipeline_id"), "partition_mappings", ["pipeline_id"], unique=False)
    op.create_table(
        "partition_ownerships",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("kafka_cluster_id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("transactional_id", sa.Text(), nullable=True),
        sa.Column("owner_run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("owner_ordinal", sa.Integer(), nullable=False),
        sa.Column("owner_lease", sa.Integer(), nullable=False),
        sa.Column("owner_task", sa.Integer(), nullable=False),
        sa.Column("owner_attempt", sa.Integer(), nullable=False),
        sa.Column("owner_host", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("during", postgresql.TSTZRANGE(), nullable=False),
        postgresql.ExcludeConstraint(
            ("kafka_cluster_id", "="),
            ("group_id", "="),
            ("topic", "="),
            ("partition", "="),
            ("during", "&&"),
            using="gist",
            name="ex_partition_ownerships_during",
        ),
        sa.CheckConstraint("NOT isempty(during)", name=op.f("ck_partition_ownerships_during")),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_partition_ownerships_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_partition_ownerships")),
    )
    op.create_index(op.f("ix_partition_ownerships_pipeline_id"), "partition_ownerships", ["pipeline_id"], unique=False)
    op.create_table(
        "revisions",
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("definition", postgresql.JSONB(), nullable=False),
        sa.Column("definition_sha256", sa.Text(), nullable=False),
        sa.Column("transform_source_sha256", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.CheckConstraint("number >= 1", name=op.f("ck_revisions_number")),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_revisions_pipeline_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["transform_source_sha256"], ["transform_sources.sha256"], name=op.f("fk_revisions_transform_source_sha256")
        ),
        sa.PrimaryKeyConstraint("pipeline_id", "number", name=op.f("pk_revisions")),
    )
    op.create_table(
        "transactional_ids",
        sa.Column("kafka_cluster_id", sa.Text(), nullable=False),
        sa.Column("transactional_id", sa.Text(), nullable=False),
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("task", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_transactional_ids_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("kafka_cluster_id", "transactional_id", name=op.f("pk_transactional_ids")),
    )
    op.create_index(op.f("ix_transactional_ids_pipeline_id"), "transactional_ids", ["pipeline_id"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", sa.Uuid(as_uuid=False), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("pipeline_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("desired", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_by", sa.Text(), nullable=False),
        sa.Column("bounce_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("starts_again", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_as", sa.Text(), nullable=True),
        sa.Column("end_reason", sa.Text(), nullable=True),
        sa.CheckConstraint("desired IN ('drain', 'kill', 'pause', 'run')", name=op.f("ck_runs_desired")),
        sa.CheckConstraint("ended_as IN ('failed', 'stopped')", name=op.f("ck_runs_ended_as")),
        sa.CheckConstraint("(ended_at IS NULL) = (ended_as IS NULL)", name=op.f("ck_runs_end")),
        sa.ForeignKeyConstraint(
            ["pipeline_id", "revision"], ["revisions.pipeline_id", "revisions.number"], name="fk_runs_revision"
        ),
        sa.ForeignKeyConstraint(
            ["pipeline_id"], ["pipelines.id"], name=op.f("fk_runs_pipeline_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    op.create_index("ix_runs_pipeline_started", "runs", ["pipeline_id", "started_at"], unique=False)
    op.create_index("ix_runs_started", "runs", ["started_at", "id"], unique=False)
    op.create_index("uq_runs_live", "runs", ["pipeline_id"], unique=True, postgresql_where=sa.text("ended_at IS NULL"))
    op.create_table(
        "instances",
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("leased_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("token_issued", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("application_id", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("jvm_pid", sa.Integer(), nullable=True),
        sa.Column("python_pid", sa.Integer(), nullable=True),
        sa.Column("process_started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("log_path", sa.Text(), nullable=True),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("web_ui_url", sa.Text(), nullable=True),
        sa.Column("executors", sa.Integer(), nullable=True),
        sa.Column("tasks_running", sa.Integer(), nullable=True),
        sa.Column("tasks_waiting", sa.Integer(), nullable=True),
        sa.Column("last_heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("missing_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome_kind", sa.Text(), nullable=True),
        sa.Column("outcome_message", sa.Text(), nullable=True),
        sa.Column("outcome_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('draining', 'failed', 'lost', 'paused', 'pending', "
            "'running', 'starting', 'stopped', 'submitting', 'unreachable')",
            name=op.f("ck_instances_state"),
        ),
        sa.CheckConstraint("ordinal >= 0 AND lease >= 1", name=op.f("ck_instances_numbers")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_instances_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "ordinal", "lease", name=op.f("pk_instances")),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index(
        "uq_instances_living",
        "instances",
        ["run_id", "ordinal"],
        unique=True,
        postgresql_where=sa.text("state NOT IN ('failed', 'lost', 'stopped')"),
    )
    op.create_table(
        "run_samples",
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("records_in_per_s", sa.Double, nullable=False),
        sa.Column("records_out_per_s", sa.Double, nullable=False),
        sa.Column("commits_per_s", sa.Double, nullable=False),
        sa.Column("aborts_per_s", sa.Double, nullable=False),
        sa.Column("commit_latency_p99_ms", sa.Double, nullable=True),
        sa.Column("lag_records", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_samples_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "at", name=op.f("pk_run_samples")),
    )
    op.create_table(
        "task_events",
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("task", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("partitions", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "kind IN ('aborted', 'assigned', 'bad_record', 'error', 'fenced', 'lost', 'outcome_unknown', "
            "'rebuilt', 'revoked', 'superseded')",
            name=op.f("ck_task_events_kind"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_task_events_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "event_id", name=op.f("pk_task_events")),
    )
    op.create_index("ix_task_events_at", "task_events", ["at"], unique=False)
    op.create_index("ix_task_events_run_at", "task_events", ["run_id", "at", "event_id"], unique=False)
    op.create_table(
        "run_tokens",
        sa.Column("secret_sha256", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "ordinal", "lease"],
            ["instances.run_id", "instances.ordinal", "instances.lease"],
            name="fk_run_tokens_instance",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("secret_sha256", name=op.f("pk_run_tokens")),
        sa.UniqueConstraint("run_id", "ordinal", "lease", name=op.f("uq_run_tokens_run_id_ordinal_lease")),
    )
    op.create_table(
        "task_attempts",
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("task", sa.Integer(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("state_since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("report", postgresql.JSONB(), nullable=False),
        sa.Column("rates", postgresql.JSONB(), nullable=False),
        sa.Column("zombie_heartbeats", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("zombie_first_seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("zombie_last_seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('backing_off', 'drained', 'draining', 'failed', 'fenced', 'paused', "
            "'running', 'starting', 'superseded')",
            name=op.f("ck_task_attempts_state"),
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "ordinal", "lease"],
            ["instances.run_id", "instances.ordinal", "instances.lease"],
            name="fk_task_attempts_instance",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("run_id", "ordinal", "task", "lease", "attempt", name=op.f("pk_task_attempts")),
        postgresql_with={"fillfactor": "50"},
    )
    # A pipeline and its first revision name each other, so this is asked at commit.
    op.create_foreign_key(
        "fk_pipelines_current_revision",
        "pipelines",
        "revisions",
        ["id", "current_revision"],
        ["pipeline_id", "number"],
        deferrable=True,
        initially="DEFERRED",
    )
    op.execute("INSERT INTO database_identity (marker) VALUES ('new')")
    create_triggers()


def create_triggers() -> None:
    op.execute(
        """
        CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE integrity_constraint_violation USING CONSTRAINT = 'rows_are_immutable',
                MESSAGE = format('rows of %s are kept as they were written', TG_TABLE_NAME);
        END $$
        """
    )
    for table in IMMUTABLE:
        op.execute(
            f"CREATE TRIGGER rows_are_immutable BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_change()"
        )
    op.execute(
        """
        CREATE FUNCTION refuse_lease() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (SELECT FROM instances WHERE run_id = NEW.run_id AND ordinal = NEW.ordinal
                       AND lease >= NEW.lease) THEN
                RAISE integrity_constraint_violation USING CONSTRAINT = 'instances_lease_grows',
                    MESSAGE = format('lease %s of instance %s is not above those before it', NEW.lease, NEW.ordinal);
            END IF;
            RETURN NEW;
        END $$
        """
    )
    op.execute(
        "CREATE TRIGGER instances_lease_grows BEFORE INSERT ON instances FOR EACH ROW EXECUTE FUNCTION refuse_lease()"
    )
    op.execute(
        """
        CREATE FUNCTION refuse_revival() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE integrity_constraint_violation USING CONSTRAINT = 'instances_end_is_final',
                MESSAGE = format('instance %s is %s for ever under lease %s', OLD.ordinal, OLD.state, OLD.lease);
        END $$
        """
    )
    op.execute(
        """
        CREATE TRIGGER instances_end_is_final BEFORE UPDATE OF state ON instances FOR EACH ROW
        WHEN (OLD.state IN ('failed', 'lost', 'stopped') AND NEW.state <> OLD.state) EXECUTE FUNCTION refuse_revival()
        """
    )


def downgrade() -> None:
    op.drop_constraint("fk_pipelines_current_revision", "pipelines")
    op.drop_table("task_attempts")
    op.drop_table("run_tokens")
    op.drop_table("task_events")
    op.drop_table("run_samples")
    op.drop_table("instances")
    op.drop_table("runs")
    op.drop_table("transactional_ids")
    op.drop_table("revisions")
    op.drop_table("partition_ownerships")
    op.drop_table("partition_mappings")
    op.drop_table("sessions")
    op.drop_table("pipelines")
    op.drop_table("transform_sources")
    op.drop_table("tokens")
    op.drop_table("one_time_links")
    op.drop_table("idempotency_keys")
    op.drop_table("database_identity")
    op.drop_table("command_log")
    op.drop_table("clusters")
    for function in ("refuse_change", "refuse_lease", "refuse_revival"):
        op.execute(f"DROP FUNCTION {function}()")
    # The extension stays: another schema of this database may use it.
