"""The commands of the product: module and name of each, as strings, so that `--help` loads none of them."""

from __future__ import annotations

COMMANDS = {
    "audit": "app.products.audits.cli.audits:audit",
    "compare": "app.products.audits.cli.comparisons:compare",
    "audits": "app.products.audits.cli.audits:app",
}
