"""Migrations of somebody else's applications at the edge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.kit.web.api.bodies import Body
from app.kit.web.api.shown import shows
from app.kit.web.api.words import Why
from app.products.migrations import foreign
from app.products.migrations.service import foreign as watching


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
