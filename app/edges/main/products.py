"""The products of a server, in the order of their needs, loops and routes.

Two other lists name products, since commands must not load these records: the tables (app/edges/main/tables.py) and the
command line (app/edges/cli/__init__.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from app.core.runs.hooks import Hooks
from app.edges.main import api_models  # first: core's declarations stand before the models of products

# isort: split
from app.core.product import Product
from app.products.audits.product import AUDITS
from app.products.dataframes.product import DATAFRAMES
from app.products.drills.product import DRILLS
from app.products.files.product import FILES
from app.products.migrations.product import MIGRATIONS
from app.products.offset_log.product import OFFSET_LOG
from app.products.partition_log.product import PARTITION_LOG
from app.products.topics.product import TOPICS
from app.products.webhooks.product import WEBHOOKS

__all__ = ["PARTS", "PRODUCTS", "api_models"]

PRODUCTS: tuple[Product, ...] = (
    DATAFRAMES,
    OFFSET_LOG,
    DRILLS,
    MIGRATIONS,
    AUDITS,
    FILES,
    PARTITION_LOG,
    TOPICS,
    WEBHOOKS,
)

HOOKS = Hooks(
    busy=tuple(one.busy for one in PRODUCTS if one.busy is not None),
    disturbed=tuple(one.disturbed for one in PRODUCTS if one.disturbed is not None),
    order_of=tuple(one.order_of for one in PRODUCTS if one.order_of is not None),
    shut_out=tuple(one.shut_out for one in PRODUCTS if one.shut_out is not None),
    expire=tuple(one.expire for one in PRODUCTS if one.expire is not None),
    keep_offsets=tuple(one.keep_offsets for one in PRODUCTS if one.keep_offsets is not None),
)

PARTS: Mapping[type, object] = {
    Hooks: HOOKS,
    **{kind: part for one in PRODUCTS for kind, part in one.row_parts.items()},
}
"""For `Database(parts=PARTS)`."""
