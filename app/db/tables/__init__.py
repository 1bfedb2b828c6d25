"""The tables, by noun. Importing this room fills `metadata`, which migrations are compared with."""

from app.db.tables import (
    access,
    audits,
    commands,
    definitions,
    drills,
    fencing,
    files,
    hanging,
    identity,
    mappings,
    migrations,
    offset_log,
    orphan_looks,
    runs,
    tasks,
    webhooks,
)
from app.db.tables.columns import metadata

__all__ = [
    "access",
    "audits",
    "commands",
    "definitions",
    "drills",
    "fencing",
    "files",
    "hanging",
    "identity",
    "mappings",
    "metadata",
    "migrations",
    "offset_log",
    "orphan_looks",
    "runs",
    "tasks",
    "webhooks",
]
