"""REST under /api/v1."""

from __future__ import annotations

from fastapi import APIRouter

from app.edges.main import api_models  # first: it declares what the routes show

# isort: split
from app.core.access import api as access
from app.core.blocked import api as stuck
from app.core.clusters import api as clusters
from app.core.fencing import api as fencing
from app.core.hanging import api as hanging
from app.core.ids.api import imports as id_imports
from app.core.ids.api import registry as id_registry
from app.core.mappings import api as mappings
from app.core.observing import api as observing
from app.core.pipelines import api as pipelines
from app.core.runs.api import offsets, runs
from app.core.transforms import api as transform_sources
from app.products.audits import api as audits
from app.products.drills import api as drills
from app.products.files.api import files, orphans
from app.products.migrations.api import foreign as foreign_migrations
from app.products.migrations.api import migrations
from app.products.offset_log import api as offset_log
from app.products.partition_log import api as partition_log
from app.products.webhooks import api as webhooks

__all__ = ["api_models", "router"]

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
