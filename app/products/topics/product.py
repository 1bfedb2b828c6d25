"""The record of topics (app/core/product.py)."""

from __future__ import annotations

from app.products.topics import schemas  # first: it declares what the routes show

# isort: split
from app.core.pipelines.ports import TopicReader
from app.core.product import Product, Routes, ServerParts, Tag
from app.kit.web.pages.navigation import ClusterPage
from app.products.topics import api, pages
from app.products.topics.service.samples import TopicSamples
from app.products.topics.service.topics import TopicNames
from app.products.topics.usage import GroupTopics

__all__ = ["TOPICS", "schemas"]


def _parts(server: ServerParts) -> dict[type, object]:
    names = TopicNames(server.brokers, server.clock)
    samples = TopicSamples(server.brokers, server.unit_of_work, server.clock, names)
    return {TopicNames: names, TopicReader: samples, GroupTopics: GroupTopics()}


TOPICS = Product(
    name="topics",
    api=(Routes(after="fencing", routers=(api.router,)),),
    tags=(
        Tag(
            after="clusters",
            name="topics",
            text="Topics with settings, sizes, readers and writers; their records with the outcome of each.",
        ),
    ),
    pages=(Routes(after="clusters", routers=(pages.router,)),),
    cluster_pages=(
        ClusterPage(title="Topics", path="/clusters/{name}/topics", order=20, also=("/clusters/{name}/log",)),
    ),
    parts=_parts,
)
