"""The commands of the product: module and name of each, as strings, so that `--help` loads none of them."""

from __future__ import annotations

COMMANDS = {
    "transactions": "app.products.direct.listing:transactions",
    "groups": "app.products.direct.groups:groups",
    "double-processing": "app.products.direct.double_processing:double_processing",
    "fencing": "app.products.direct.fencing:fencing",
    "stuck": "app.products.direct.stuck:stuck",
    "fence": "app.products.direct.ending:fence",
    "end": "app.products.direct.ending:end",
}
