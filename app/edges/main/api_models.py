"""The declarations of what core's API takes and shows; each product's record brings its own.

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

__all__ = [
    "access",
    "blocked",
    "clusters",
    "fencing",
    "hanging",
    "ids",
    "offset_schemas",
    "pipelines",
    "run_schemas",
]
