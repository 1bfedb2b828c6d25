"""Orphans at the edge: looks and collections, what they found, and what was deleted."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

import msgspec
from pydantic import Field

from app.domain.files.orphan_look import OrphanAct, OrphanLookState
from app.domain.files.orphan_look import OrphanLook as DomainLook
from app.services.files import orphans as services
from app.web.api.schemas.base import Answer, Body
from app.web.api.schemas.words import Why


class CollectGiven(Body):
    """Which look is to be collected: no more is deleted than it found."""

    look: Annotated[
        str,
        Field(
            pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
            description="The id of `judged`, the newest look that judged files.",
        ),
    ]
    why: Why = None


class Amount(Answer):
    files: int
    size_bytes: int


class OrphanFile(Answer):
    root: str
    path: Annotated[str, Field(description="Below `root`.")]
    size_bytes: int
    uploaded_at: Annotated[datetime, Field(description="By the store’s clock.")]


class DanglingReference(Answer):
    """A committed reference whose file is not in the store. That must never be; unless somebody deleted it."""

    root: str
    path: str
    place: Annotated[str, Field(description="Where the reference lies: topic-partition@offset.")]


class OpenTransaction(Answer):
    """It was not decided when somebody looked, so nothing was judged."""

    topic: str
    partition: int
    offset: Annotated[int, Field(description="Where it begins.")]
    since: Annotated[datetime | None, Field(description="When its first record was written; null: not known.")]
    transactional_id: Annotated[
        str | None, Field(description="By the reference that this record is; null: it is none.")
    ]


class RootFindings(Answer):
    """Below one root that the pipeline writes to, or wrote to."""

    root: str
    listed_at: Annotated[datetime, Field(description="The moment that ages are counted at, by the store’s clock.")]
    skew_ms: Annotated[
        int | None, Field(description="How far the store’s clock is ahead of the server’s; null: it does not tell.")
    ]
    margin_ms: Annotated[int, Field(description="A file is judged so long after its upload.")]
    margin: Annotated[str, Field(description="What that is made of.")]
    known_since: Annotated[
        datetime | None,
        Field(description="Files from before are unknown: their references may be gone; null: all files are."),
    ]
    known_since_why: str
    referenced: Annotated[Amount, Field(description="Named by a committed reference.")]
    too_young: Annotated[Amount, Field(description="Their transaction may be still to come.")]
    orphans: Annotated[Amount, Field(description="No committed reference names them, and none ever will.")]
    unknown: Annotated[Amount, Field(description="Never deleted.")]
    not_ours: Annotated[Amount, Field(description="Of other names than a sink gives; left alone.")]
    open_uploads: Annotated[int, Field(description="Uploads in parts that nobody will complete.")]
    missing: Annotated[int, Field(description="Committed references, old enough, whose file is not there.")]
    unchecked: Annotated[int, Field(description="So many more were not in the listing, and not looked for.")]
    references: int
    others: Annotated[int, Field(description="Committed records of the sink topics that are no references.")]


class OrphanFindings(Answer):
    """What a look came to. While a transaction is open in a sink topic nothing is judged: `roots` is empty then."""

    roots: list[RootFindings]
    orphans: Annotated[Amount, Field(description="Below all roots.")]
    oldest: Annotated[list[OrphanFile], Field(description="The oldest 25 orphans.")]
    dangling: Annotated[list[DanglingReference], Field(description="25 at most.")]
    blocked: Annotated[list[OpenTransaction], Field(description="25 at most.")]


class KeptFile(Answer):
    root: str
    path: str
    why: str


class Collected(Answer):
    deleted: Amount
    aborted_uploads: Annotated[int | None, Field(description="Null: it ended before it told.")]
    kept_files: Annotated[int, Field(description="Orphans of the look right before that were none any more.")]
    kept: Annotated[list[KeptFile], Field(description="25 of them at most, each with the reason.")]


class ConfirmedRoot(Answer):
    root: str
    judged_until: Annotated[datetime, Field(description="What was uploaded later stays.")]


class Confirmed(Answer):
    """What was found when somebody had it collected: no more is deleted."""

    look_id: str
    orphans: Amount
    open_uploads: int
    roots: list[ConfirmedRoot]


class OrphanLook(Answer):
    """A look, or a collection, which looks anew and then deletes."""

    id: str
    pipeline: str
    act: OrphanAct
    state: Annotated[OrphanLookState, Field(description="`asked` and `running` until it is over.")]
    asked_at: datetime
    asked_by: str
    attempt: Annotated[int, Field(description="How often it was begun: a look that a server died in is begun anew.")]
    begun_at: datetime | None
    told: Annotated[str, Field(description="How far it is.")]
    deleted: Annotated[Amount, Field(description="So far, as was told.")]
    ended_at: datetime | None
    reason: Annotated[str | None, Field(description="Why it failed; null: it did not.")]
    findings: Annotated[
        OrphanFindings | None,
        Field(description="Of a collection: what is left after it. Null: it has not come so far."),
    ]
    confirmed: Annotated[Confirmed | None, Field(description="Of a collection.")]
    collected: Annotated[Collected | None, Field(description="What a collection came to.")]

    @classmethod
    def of_look(cls, look: DomainLook) -> Self:
        found = look.findings
        if found is None:
            return cls.of(look)
        shown = {**msgspec.to_builtins(found), "orphans": msgspec.to_builtins(found.orphans)}
        return cls.of(look, findings=shown)


class Orphans(Answer):
    newest: Annotated[OrphanLook | None, Field(description="What was asked for last; null: nobody has ever looked.")]
    judged: Annotated[OrphanLook | None, Field(description="The newest that judged files; what `collect` may name.")]
    collected: Annotated[OrphanLook | None, Field(description="The newest collection that is over.")]

    @classmethod
    def of_orphans(cls, orphans: services.Orphans) -> Self:
        looks = {"newest": orphans.newest, "judged": orphans.judged, "collected": orphans.collected}
        return cls.model_validate({name: one and OrphanLook.of_look(one) for name, one in looks.items()})
