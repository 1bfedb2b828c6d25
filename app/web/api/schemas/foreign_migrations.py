"""Migrations of somebody else's applications at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.migrations.foreign import ForeignStage
from app.web.api.schemas.base import Answer, Body
from app.web.api.schemas.migrations import Clause, Incarnation
from app.web.api.schemas.words import Why


class ForeignMigrationGiven(Body):
    """group: its consumer group. prefix: how its transactional ids begin, one for each input partition."""

    group: Annotated[str, Field(min_length=1, max_length=1000)]
    prefix: Annotated[str, Field(min_length=1, max_length=500)]
    why: Why = None


class ForeignMember(Answer):
    member_id: str
    client_id: str
    host: str


class ForeignMark(Answer):
    """A stage that was left. ids, members: as they were when the next one began."""

    stage: ForeignStage
    at: datetime
    by: str
    why: str | None
    clauses: list[Clause]
    ids: dict[str, Incarnation]
    members: list[ForeignMember]


class ForeignMigration(Answer):
    id: str
    cluster: str
    group: str
    prefix: str
    started_at: datetime
    started_by: str
    why: str | None
    stage: ForeignStage
    stage_since: datetime
    marks: list[ForeignMark]
    ended_at: datetime | None


class ForeignMigrationList(Answer):
    items: list[ForeignMigration]


class ForeignView(Answer):
    """gate: what the brokers say of its stage now. lacking: evidence that nobody here can have."""

    migration: ForeignMigration
    gate: list[Clause]
    lacking: list[str]
