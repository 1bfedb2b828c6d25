"""The pages: what a browser sees. One module a noun, named as in `domain/`, `services/` and `templates/`."""

from __future__ import annotations

from fastapi import APIRouter

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

__all__ = ["router"]
