"""REST under /api/v1."""

from __future__ import annotations

from fastapi import APIRouter

from app.web.api import (
    access,
    audits,
    clusters,
    drills,
    fencing,
    files,
    foreign_migrations,
    hanging,
    id_imports,
    id_registry,
    mappings,
    migrations,
    observing,
    offset_log,
    offsets,
    orphans,
    partition_log,
    pipelines,
    runs,
    stuck,
    transform_sources,
    webhooks,
)

router = APIRouter(prefix="/api/v1")
for noun in (
    clusters,
    hanging,
    observing,
    fencing,
    partition_log,
    stuck,
    pipelines,
    mappings,
    id_imports,
    id_registry,
    offset_log,
    files,
    offsets,
    orphans,
    runs,
    drills,
    migrations,
    foreign_migrations,
    audits,
    transform_sources,
    webhooks,
    access,
):
    router.include_router(noun.router)
