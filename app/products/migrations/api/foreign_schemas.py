"""REST shapes of foreign migrations."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.kit.web.api.bodies import Body
from app.kit.web.api.shown import shows
from app.kit.web.api.words import Why
from app.products.migrations import foreign
from app.products.migrations.service import foreign as watching


class ForeignMigrationGiven(Body):
    """group: its consumer group. prefix: the start of its transactional ids, one id for each input partition."""

    group: Annotated[str, Field(min_length=1, max_length=1000)]
    prefix: Annotated[str, Field(min_length=1, max_length=500)]
    why: Why = None


@shows(foreign.ForeignMark)
class ForeignMark:
    """A completed stage. ids, members: the state when the next stage began."""


@shows(watching.ForeignView, without=("look",))
class ForeignView:
    """gate: the conditions of its stage as the brokers show them now. lacking: evidence that Fenceline cannot get."""
