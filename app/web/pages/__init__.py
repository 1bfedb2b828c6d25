"""The pages: what a browser sees. One module a noun, named as in `domain/`, `services/` and `templates/`."""

from __future__ import annotations

from fastapi import APIRouter

from app.domain.audits import tones as audits_tones
from app.domain.drills import tones as drills_tones
from app.domain.fencing_events import tones as fencing_events_tones
from app.domain.journals import tones as journals_tones
from app.domain.migrations import tones as migrations_tones
from app.domain.observing import tones as observing_tones
from app.domain.runs import tones as runs_tones
from app.domain.stuck import tones as stuck_tones
from app.domain.transactions import tones as transactions_tones
from app.domain.webhooks import tones as webhooks_tones
from app.web.pages import (
    audits,
    clusters,
    commands,
    drills,
    fencing,
    files,
    foreign_migrations,
    groups,
    id_imports,
    id_registry,
    login,
    mappings,
    migration_acts,
    migration_plans,
    migrations,
    offset_log,
    overview,
    partition_log,
    pipeline_edit,
    pipelines,
    runs,
    stuck,
    tokens,
    transactions,
    webhooks,
)
from app.web.pages.frame.display import register_tones

router = APIRouter()
for _module in (
    login,
    overview,
    pipeline_edit,
    pipelines,
    offset_log,
    files,
    runs,
    drills,
    foreign_migrations,
    migration_plans,
    migration_acts,
    migrations,
    audits,
    mappings,
    id_registry,
    id_imports,
    transactions,
    groups,
    stuck,
    fencing,
    clusters,
    partition_log,
    commands,
    webhooks,
    tokens,
):
    router.include_router(_module.router)

for _tones in (
    audits_tones,
    drills_tones,
    fencing_events_tones,
    journals_tones,
    migrations_tones,
    observing_tones,
    runs_tones,
    stuck_tones,
    transactions_tones,
    webhooks_tones,
):
    register_tones(_tones.TONES)

__all__ = ["router"]
