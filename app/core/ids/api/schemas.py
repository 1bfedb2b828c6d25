"""REST schemas of the registry of transactional ids, and of their import."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from pydantic import Field

from app.core.ids import formulas as id_formulas
from app.core.ids import imported as id_import
from app.core.ids import registry as domain
from app.core.ids.registry import IdStanding, Orphan
from app.core.ids.service.registry import Registry as DomainRegistry
from app.core.mappings import mapping
from app.core.observing.schemas.reading import JournalReading
from app.kit.web.api.bodies import Answer, Body
from app.kit.web.api.problem import ShownProblem
from app.kit.web.api.shown import Items, Shown, made, shows
from app.kit.web.api.words import Why
from app.kit.words import moment


@shows(id_formulas.IdFormula)
class IdFormula:
    """The formula of another framework. `counts`: its ids are numbered, and belong to no partition."""

    counts: bool


class ImportGiven(Body):
    """A CSV, a formula, or a CSV whose missing ids a formula makes.

    The CSV has the columns topic, partition and transactional_id. Its first line may name them in another order. A
    line without topic and partition is an id alone. `values` has the values of the formula's `meanings`, `count` the
    number of ids of a numbering formula.
    """

    csv: Annotated[str, Field(max_length=id_import.MAX_CSV_CHARACTERS)] = ""
    formula: Annotated[str | None, Field(max_length=100)] = None
    values: Annotated[dict[str, Annotated[str, Field(max_length=1000)]], Field(max_length=20)] = Field(default={})
    count: Annotated[int, Field(ge=0, le=id_import.MAX_LINES)] = 0
    why: Why = None

    def wish(self) -> id_import.ImportWish:
        return id_import.ImportWish(csv=self.csv, formula=self.formula, values=self.values, count=self.count)


@shows(id_import.ImportLine)
class ImportLine:
    """One line; `is_known`: imported before, and unchanged. Any problem refuses the whole import."""


def _is_valid(plan: id_import.ImportPlan) -> bool:
    return not plan.problems


@shows(id_import.ImportPlan)
class ImportPlan:
    is_valid: bool = made(_is_valid)
    problems: list[ShownProblem]


@shows(Items[str])
class ForgottenIds:
    pass


class RegisteredId(Answer):
    """One transactional id. Null if the brokers do not have it: state, producer, changed_at.

    `orphan`: the reason for which no pipeline uses it. `expires_at`: the time from which the coordinator may expire it,
    without further use; null: without expiry, or not known. `contested`: a sentence if another producer than its
    owner's uses it.
    """

    transactional_id: str
    standing: IdStanding
    orphan: Orphan | None
    owner: Shown[mapping.TransactionalIdOwner] | None
    partitions: list[str]
    state: str | None
    is_open: bool
    producer_id: int | None
    producer_epoch: int | None
    changed_at: datetime | None
    expires_at: datetime | None
    contested: str

    @classmethod
    def of_registered(cls, one: domain.RegisteredId) -> Self:
        state = None if one.live is None else one.live.state
        return cls(
            transactional_id=one.transactional_id,
            standing=one.standing,
            orphan=one.orphan,
            owner=one.owner,
            partitions=list(one.partitions),
            state=None if state is None else state.status.word,
            is_open=one.live is not None and one.live.is_open,
            producer_id=None if state is None else state.producer_id,
            producer_epoch=None if state is None else state.producer_epoch,
            changed_at=None if state is None else moment(state.last_update_ms),
            expires_at=moment(one.expires_at_ms),
            contested=one.contested,
        )


class IdTally(Answer):
    """`ids`: on the brokers; `unseen`: owned by a pipeline, and not on the brokers."""

    ids: int
    ours: int
    foreign: int
    orphaned: int
    archived: int
    unseen: int
    contested: int


class Registry(Answer):
    """`stale`: mappings that no pipeline reads. `expiration_ms`: null with its reason in `expiration_problem`."""

    items: list[RegisteredId]
    next_cursor: str | None
    matching: int
    tally: IdTally
    stale: list[Shown[mapping.PartitionMapping]]
    expiration_ms: int | None
    expiration_problem: str
    reading: JournalReading

    @classmethod
    def of_registry(cls, found: DomainRegistry, *, now: datetime) -> Self:
        return cls(
            items=[RegisteredId.of_registered(one) for one in found.items],
            next_cursor=found.next_cursor,
            matching=found.matching,
            tally=IdTally(**found.tally._asdict()),
            stale=list(found.stale),
            expiration_ms=found.expiration_ms,
            expiration_problem=found.expiration_problem,
            reading=JournalReading.of_status(found.journal, now=now),
        )


@shows(Items[domain.IdCount])
class IdGrowth:
    """Oldest first: one a minute of the last six hours, one an hour before."""
