"""The routes of all pages, one module for each noun."""

from __future__ import annotations

from fastapi import APIRouter

from app.core.access.pages import commands, login, tokens
from app.core.alerts import tones as webhooks_tones
from app.core.blocked import pages as stuck
from app.core.blocked import tones as stuck_tones
from app.core.clusters import pages as clusters
from app.core.fencing import tones as fencing_events_tones
from app.core.fencing.pages import fencing
from app.core.ids import tones as transactions_tones
from app.core.ids.pages import imports as id_imports
from app.core.ids.pages import registry as id_registry
from app.core.journals import tones as journals_tones
from app.core.mappings import pages as mappings
from app.core.observing import tones as observing_tones
from app.core.observing.pages import groups, transactions
from app.core.overview import pages as overview
from app.core.pipelines.pages import edit as pipeline_edit
from app.core.pipelines.pages import pipelines
from app.core.runs import tones as runs_tones
from app.core.runs.pages import runs
from app.kit.web.pages.display import register_tones
from app.products.audits import pages as audits
from app.products.audits import tones as audits_tones
from app.products.drills import pages as drills
from app.products.drills import tones as drills_tones
from app.products.files import pages as files
from app.products.migrations import tones as migrations_tones
from app.products.migrations.pages import (
    acts as migration_acts,
)
from app.products.migrations.pages import (
    foreign as foreign_migrations,
)
from app.products.migrations.pages import (
    migrations,
)
from app.products.migrations.pages import (
    plans as migration_plans,
)
from app.products.offset_log import pages as offset_log
from app.products.partition_log import pages as partition_log
from app.products.webhooks import pages as webhooks

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
