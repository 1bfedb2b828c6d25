"""The record of the partition log (app/core/product.py)."""

from __future__ import annotations

from app.products.partition_log import schemas  # first: it declares what the routes show

# isort: split
from app.core.product import Product, Routes, Tag
from app.products.partition_log import api, pages

__all__ = ["PARTITION_LOG", "schemas"]

PARTITION_LOG = Product(
    name="partition_log",
    api=(Routes(after="fencing", routers=(api.router,)),),
    tags=(
        Tag(
            after="clusters",
            name="partition log",
            text="The raw batches of a partition with their outcomes.",
        ),
    ),
    pages=(Routes(after="clusters", routers=(pages.router,)),),
)
