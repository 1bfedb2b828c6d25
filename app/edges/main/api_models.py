"""The declarations of what the API takes and shows.

They are imported here, because each `@shows` must stand before the first model that contains its struct.
"""

from app.core.runs.api import run_schemas  # first: other answers contain what it declares

# isort: split
from app.core.access import schemas as access
from app.core.blocked import schemas as blocked
from app.core.clusters import schemas as clusters
from app.core.fencing import schemas as fencing
from app.core.hanging import schemas as hanging
from app.core.ids.api import schemas as ids
from app.core.pipelines import schemas as pipelines
from app.core.runs.api import offset_schemas
from app.products.audits import schemas as audits
from app.products.drills import schemas as drills
from app.products.files.api import file_schemas, orphan_schemas
from app.products.migrations.api import foreign_schemas, migration_schemas
from app.products.offset_log import schemas as offset_log
from app.products.partition_log import schemas as partition_log
from app.products.webhooks import schemas as webhooks

__all__ = [
    "access",
    "audits",
    "blocked",
    "clusters",
    "drills",
    "fencing",
    "file_schemas",
    "foreign_schemas",
    "hanging",
    "ids",
    "migration_schemas",
    "offset_log",
    "offset_schemas",
    "orphan_schemas",
    "partition_log",
    "pipelines",
    "run_schemas",
    "webhooks",
]
