"""What the API takes and shows, as OpenAPI sees it.

Every module is imported here, so that each `@shows` stands before the first model is built.
"""

from app.web.api.schemas import definition, pipelines, runs  # first: the others contain what these declare

# isort: split
from app.web.api.schemas import (
    access,
    audits,
    clusters,
    drills,
    fencing,
    files,
    foreign_migrations,
    hanging,
    ids,
    migrations,
    offset_log,
    offsets,
    orphans,
    partition_log,
    stuck,
    webhooks,
)

__all__ = [
    "access",
    "audits",
    "clusters",
    "definition",
    "drills",
    "fencing",
    "files",
    "foreign_migrations",
    "hanging",
    "ids",
    "migrations",
    "offset_log",
    "offsets",
    "orphans",
    "partition_log",
    "pipelines",
    "runs",
    "stuck",
    "webhooks",
]
