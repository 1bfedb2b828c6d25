"""The alert of a migration."""

from __future__ import annotations

from app.core.alerts.alert import Alert, AlertKind, AlertState, subject_of
from app.products.migrations.alarms import Alarm
from app.products.migrations.migration import Migration, MigrationState


def migration_alert(migration: Migration, alarm: Alarm, *, kafka_cluster_id: str) -> Alert:
    """Make the alert of an alarm that was just raised. The sentence names host and process where they are known."""
    effect = "Nothing is left to stop" if migration.state is MigrationState.DONE else "No further step begins"
    return Alert(
        kind=AlertKind.MIGRATION_ALARM,
        state=AlertState.HAPPENED,
        subject=subject_of("migration", migration.id, alarm.kind, alarm.key),
        at=alarm.at,
        sentence=f"The migration of {migration.pipeline} to {migration.goal.words}: {alarm.sentence}. {effect}.",
        page=f"/migrations/{migration.id}",
        cluster=migration.cluster,
        kafka_cluster_id=kafka_cluster_id,
        pipeline=migration.pipeline,
        run=migration.run_id,
        host=alarm.host,
        migration=migration.id,
        process=alarm.pid,
    )
