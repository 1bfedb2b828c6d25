"""Issues and panels of products on core's pages: each product has the functions that `overview` calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from app.core.pipelines.pipeline_record import Pipeline
from app.core.runs.needs import Need
from app.kit.db.unit_of_work import UnitOfWork

NeedsOf = Callable[[UnitOfWork, Sequence[Pipeline], datetime], Awaitable[Mapping[str, Sequence[Need]]]]
"""Returns the issues of these pipelines now, by pipeline name; a pipeline without any may be left out."""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """A section of a pipeline's page. template: included with `panel` in its context. content: its data."""

    template: str
    content: object


PanelOf = Callable[[UnitOfWork, Pipeline, datetime], Awaitable[Panel | None]]
"""Returns the panel of a pipeline now, or None for no panel."""
