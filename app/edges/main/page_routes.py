"""The pages: what a browser sees. Core's, and those of products at the places that their records name."""

from __future__ import annotations

from fastapi import APIRouter

from app.edges.main.products import PRODUCTS  # first: it declares what the routes show

# isort: split
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
from app.core.lag import tones as lag_tones
from app.core.mappings import pages as mappings
from app.core.observing import tones as observing_tones
from app.core.observing.pages import groups, transactions
from app.core.overview import pages as overview
from app.core.pipelines.pages import edit as pipeline_edit
from app.core.pipelines.pages import pipelines, tab_pages
from app.core.pipelines.pages.tabs import register_pipeline_links
from app.core.product import placed
from app.core.runs import tones as runs_tones
from app.core.runs.pages import offsets, runs
from app.kit.web.pages.display import register_tones
from app.kit.web.pages.navigation import register_cluster_pages, register_places
from app.kit.web.pages.said import register_sentences

_CORE = {
    "login": [login.router],
    "overview": [overview.router],
    # `/pipelines/new` before `/pipelines/{name}`.
    "pipelines": [pipeline_edit.router, pipelines.router, tab_pages.router, offsets.router],
    "runs": [runs.router],
    "mappings": [mappings.router],
    "ids": [id_registry.router, id_imports.router],
    "observing": [transactions.router, groups.router],
    "blocked": [stuck.router],
    "fencing": [fencing.router],
    "clusters": [clusters.router],
    "commands": [commands.router],
    "tokens": [tokens.router],
}

router = APIRouter()
for _router in placed(_CORE, [(routes.after, routes.routers) for product in PRODUCTS for routes in product.pages]):
    router.include_router(_router)

for _tones in (
    fencing_events_tones,
    journals_tones,
    lag_tones,
    observing_tones,
    runs_tones,
    stuck_tones,
    transactions_tones,
    webhooks_tones,
):
    register_tones(_tones.TONES)
for _product in PRODUCTS:
    register_tones(_product.tones)
    register_places(_product.navigation)
    register_cluster_pages(_product.cluster_pages)
    register_pipeline_links(_product.pipeline_links)
    register_sentences(_product.sentences)

__all__ = ["router"]
