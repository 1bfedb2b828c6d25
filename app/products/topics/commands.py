"""The commands of the product: module and name of each, as strings, so that `--help` loads none of them."""

from __future__ import annotations

COMMANDS = {
    "topics": "app.products.topics.cli:app",
}
