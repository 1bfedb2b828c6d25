"""The group that a fencing event is about, taken from what proves it and else from the pipeline."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("fencing_events", sa.Column("group_id", sa.Text(), nullable=True))
    op.execute(
        """
        UPDATE fencing_events SET group_id = COALESCE(
            jsonb_path_query_first(evidence, '$[*] ? (@.source == "client" && @.group != "").group') #>> '{}',
            (SELECT pipelines.group_id FROM pipelines WHERE pipelines.name = fencing_events.pipeline)
        )
        """
    )
    op.create_index("ix_fencing_events_group", "fencing_events", ["kafka_cluster_id", "group_id", "at", "id"])


def downgrade() -> None:
    op.drop_index("ix_fencing_events_group", table_name="fencing_events")
    op.drop_column("fencing_events", "group_id")
