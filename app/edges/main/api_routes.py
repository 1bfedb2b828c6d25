"""REST under /api/v1: core's routes, and those of products at the places that their records name."""

from __future__ import annotations

from fastapi import APIRouter

from app.edges.main.products import PRODUCTS  # first: it declares what the routes show

# isort: split
from app.core.access import api as access
from app.core.blocked import api as stuck
from app.core.clusters import api as clusters
from app.core.double_processing import api as double_processing
from app.core.fencing import api as fencing
from app.core.hanging import api as hanging
from app.core.ids.api import imports as id_imports
from app.core.ids.api import registry as id_registry
from app.core.mappings import api as mappings
from app.core.observing import api as observing
from app.core.overview import api as problems
from app.core.pipelines import api as pipelines
from app.core.product import placed
from app.core.runs.api import offsets, runs
from app.core.transforms import api as transform_sources
from app.kit.web.api.documented import TAGS

_CORE = {
    "clusters": [clusters.router],
    "hanging": [hanging.router],
    "observing": [observing.router],
    "double_processing": [double_processing.router],
    "fencing": [fencing.router],
    "blocked": [stuck.router],
    "problems": [problems.router],
    "pipelines": [pipelines.router],
    "mappings": [mappings.router],
    "ids": [id_imports.router, id_registry.router],
    "offsets": [offsets.router],
    "runs": [runs.router],
    "transforms": [transform_sources.router],
    "access": [access.router],
}

router = APIRouter(prefix="/api/v1")
for _router in placed(_CORE, [(routes.after, routes.routers) for product in PRODUCTS for routes in product.api]):
    router.include_router(_router)

tags = dict(
    placed(
        {name: [(name, text)] for name, text in TAGS.items()},
        [(tag.after, [(tag.name, tag.text)]) for product in PRODUCTS for tag in product.tags],
    )
)
"""The sentence of each heading of the OpenAPI document, in their order."""
