"""Migrations of somebody else's applications at the edge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.domain.migrations import foreign
from app.services.migrating import foreign as watching
from app.web.api.schemas.base import Body
from app.web.api.schemas.shown import shows
from app.web.api.schemas.words import Why


class ForeignMigrationGiven(Body):
    """group: its consumer group. prefix: how its transactional ids begin, one for each input partition."""

    group: Annotated[str, Field(min_length=1, max_length=1000)]
    prefix: Annotated[str, Field(min_length=1, max_length=500)]
    why: Why = None


@shows(foreign.ForeignMark)
class ForeignMark:
    """A stage that was left. ids, members: as they were when the next one began."""


@shows(watching.ForeignView, without=("look",))
class ForeignView:
    """gate: what the brokers say of its stage now. lacking: evidence that nobody here can have."""
