"""The products' issues of pipelines: each product has a function that `overview` calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from app.core.pipelines.pipeline_record import Pipeline
from app.core.runs.needs import Need
from app.kit.db.unit_of_work import UnitOfWork

NeedsOf = Callable[[UnitOfWork, Sequence[Pipeline], datetime], Awaitable[Mapping[str, Sequence[Need]]]]
"""Returns the issues of these pipelines now, by the pipeline's name; a pipeline without any may be left out."""
