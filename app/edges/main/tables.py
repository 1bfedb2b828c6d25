"""The tables, by noun. Importing this module fills `metadata`, which migrations are compared with."""

from app.core.access.tables import access, commands, identity
from app.core.alerts import tables as webhooks
from app.core.fencing import tables as fencing
from app.core.hanging import tables as hanging
from app.core.mappings import tables as mappings
from app.core.pipelines import tables as definitions
from app.core.runs.tables import recorded_offsets, runs, tasks
from app.kit.db.columns import metadata
from app.products.audits import tables as audits
from app.products.dataframes import tables as dataframes
from app.products.drills import tables as drills
from app.products.files.tables import files, orphan_looks
from app.products.migrations import tables as migrations
from app.products.offset_log import tables as offset_log

__all__ = [
    "access",
    "audits",
    "commands",
    "dataframes",
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
    "recorded_offsets",
    "runs",
    "tasks",
    "webhooks",
]
