"""The functions of all products that tell of pipelines' needs."""

from __future__ import annotations

from app.edges.main.products import PRODUCTS

NEEDS = tuple(product.needs for product in PRODUCTS if product.needs is not None)
