"""The migration of an application that Fenceline does not start: planned and watched, while its operator bounces it.

The brokers' journals are judged as in a migration of a managed pipeline. Evidence that only the application has is not
a condition. It is listed in `LACKING`, and the operator is responsible for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from app.kit.words import duration
from app.products.migrations.clause import ClauseFinding, closed, closed_unless, open_, unknown
from app.products.migrations.judged import Judged
from app.products.migrations.look import STABLE, IdNow, Incarnation

NEEDED_VERSION = (2, 5)
LONGEST_TIMEOUT_MS = 10_000
RESTS_FOR_MS = 60_000


class ForeignStage(StrEnum):
    """
    PREFLIGHT ─▶ FIRST_BOUNCE ─▶ SECOND_BOUNCE ─▶ VERIFY ─▶ DONE: the operator begins each.
    """

    PREFLIGHT = "preflight"
    FIRST_BOUNCE = "first_bounce"
    SECOND_BOUNCE = "second_bounce"
    VERIFY = "verify"
    DONE = "done"

    @property
    def words(self) -> str:
        return self.replace("_", " ")

    @property
    def after(self) -> ForeignStage | None:
        order = list(ForeignStage)
        at = order.index(self) + 1
        return order[at] if at < len(order) else None


LACKING: Mapping[ForeignStage, tuple[str, ...]] = {
    ForeignStage.PREFLIGHT: (
        "The mode of each instance: no journal records which offsets a client sends with a generation.",
        "The ids that the application will use for its tasks.",
    ),
    ForeignStage.FIRST_BOUNCE: (
        "The generation of each producer: it is not in the journals. The application's version decides.",
        "The ids that a stopped process held: no report exists, so only open transactions can be checked.",
    ),
    ForeignStage.SECOND_BOUNCE: (
        "One producer for each task: only the idle old ids and the new members can be checked.",
        "A frozen producer under an old id: fence each old id once with `fenceline fence`, then check again.",
    ),
    ForeignStage.VERIFY: ("Duplicates in the output: without a definition, no audit knows the expected ids.",),
    ForeignStage.DONE: (),
}
"""Evidence that Fenceline cannot get for a foreign application, by stage."""


class ForeignMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    client_id: str
    host: str


class ForeignId(msgspec.Struct, frozen=True, kw_only=True):
    """moves_with_commits: its client implements KIP-890, so a higher epoch proves no initialisation.

    rests_ms: the least time since the last write under it, by its coordinator's clock; None: not known.
    """

    now: IdNow
    rests_ms: int | None
    timeout_ms: int
    moves_with_commits: bool


class ForeignLook(msgspec.Struct, frozen=True, kw_only=True):
    """group_state, members: from the group's coordinator; None if it has not answered. versions: of the brokers."""

    at: datetime
    read_at: datetime | None
    ids: Mapping[str, ForeignId]
    group_state: str | None
    members: tuple[ForeignMember, ...] | None
    versions: Mapping[str, tuple[int, int] | None]


class ForeignMark(msgspec.Struct, frozen=True, kw_only=True):
    """A completed stage: its user, and what was proven. ids, members: the state when the next stage began."""

    stage: ForeignStage
    at: datetime
    by: str
    why: str | None
    clauses: tuple[Judged, ...]
    ids: dict[str, Incarnation]
    members: tuple[ForeignMember, ...]


class ForeignMigration(msgspec.Struct, frozen=True, kw_only=True):
    """prefix: the start of the old ids, one id for each input partition. marks: the completed stages, in order."""

    id: str
    cluster: str
    group: str
    prefix: str
    started_at: datetime
    started_by: str
    why: str | None = None
    stage: ForeignStage = ForeignStage.PREFLIGHT
    stage_since: datetime
    marks: tuple[ForeignMark, ...] = ()
    ended_at: datetime | None = None

    @property
    def began(self) -> ForeignMark | None:
        """Return the state when the present stage began."""
        return self.marks[-1] if self.marks else None

    def moved(self, look: ForeignLook, *, by: str, why: str | None) -> ForeignMigration:
        """Return it in the next stage, with what is proven now. Raises ValueError if it is DONE."""
        after = self.stage.after
        if after is None:
            raise ValueError("it is done")
        mark = ForeignMark(
            stage=self.stage,
            at=look.at,
            by=by,
            why=why,
            clauses=judged_foreign(self, look),
            ids={name: _incarnation(name, one.now) for name, one in look.ids.items()},
            members=look.members or (),
        )
        ended_at = look.at if after is ForeignStage.DONE else None
        return replace(self, stage=after, stage_since=look.at, marks=(*self.marks, mark), ended_at=ended_at)


class _Clause(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    asks: str
    judge: Callable[[ForeignMigration, ForeignLook], ClauseFinding]


def judged_foreign(migration: ForeignMigration, look: ForeignLook) -> tuple[Judged, ...]:
    """Judge the conditions of its stage that the brokers' state decides."""
    found = ((clause, clause.judge(migration, look)) for clause in GATES[migration.stage])
    return tuple(
        Judged(name=clause.name, asks=clause.asks, standing=finding.standing, seen=finding.seen)
        for clause, finding in found
    )


def _brokers(_: ForeignMigration, look: ForeignLook) -> ClauseFinding:
    if not look.versions:
        return unknown("no broker has reported its version")
    old = [name for name, version in look.versions.items() if version is not None and version < NEEDED_VERSION]
    if old:
        return closed(f"broker {old[0]} is before 2.5, and accepts offsets of stale members (KIP-447)")
    silent = [name for name, version in look.versions.items() if version is None]
    return unknown(f"broker {silent[0]} has not reported its version") if silent else open_("all have 2.5 or later")


def _ids_found(migration: ForeignMigration, look: ForeignLook) -> ClauseFinding:
    if look.read_at is None:
        return unknown("`__transaction_state` has not been read")
    if not look.ids:
        return closed(f"no id begins with {migration.prefix}")
    return open_(f"{len(look.ids)} ids begin with {migration.prefix}")


def _timeouts(_: ForeignMigration, look: ForeignLook) -> ClauseFinding:
    slow = [(name, one.timeout_ms) for name, one in look.ids.items() if one.timeout_ms > LONGEST_TIMEOUT_MS]
    long = [f"{name}: {timeout_ms / 1000:g} s" for name, timeout_ms in slow]
    return closed_unless(long, "every transaction times out within 10 s")


def _stable(_: ForeignMigration, look: ForeignLook) -> ClauseFinding:
    if look.group_state is None:
        return unknown("the group's coordinator has not answered")
    if look.group_state != STABLE:
        return closed(f"the group is {look.group_state}")
    return open_(f"it is stable, with {len(look.members or ())} members")


def _members_new(migration: ForeignMigration, look: ForeignLook) -> ClauseFinding:
    """A restarted client joins as a new member, except a static member."""
    began = migration.began
    if look.members is None or began is None:
        return unknown("the group's coordinator has not answered")
    before = {one.member_id for one in began.members}
    old = [f"{one.client_id} on {one.host} has not been bounced" for one in look.members if one.member_id in before]
    return closed_unless(old, f"all {len(look.members)} members have joined since it began")


def _initialised(migration: ForeignMigration, look: ForeignLook) -> ClauseFinding:
    began = migration.began
    if look.read_at is None or began is None:
        return unknown("`__transaction_state` has not been read")
    if any(one.moves_with_commits for one in look.ids.values()):
        return unknown("its clients raise the epoch with each transaction (KIP-890), so a higher epoch proves nothing")
    missing = [
        f"{name} is still at producer {held.producer_id}, epoch {held.producer_epoch}"
        for name, held in sorted(began.ids.items())
        if name in look.ids and _incarnation(name, look.ids[name].now) == held
    ]
    return closed_unless(missing, f"all {len(began.ids)} ids were initialised since it began")


def _at_rest(_: ForeignMigration, look: ForeignLook) -> ClauseFinding:
    if look.read_at is None:
        return unknown("`__transaction_state` has not been read")
    missing = [f"a transaction is open under {name}" for name, one in sorted(look.ids.items()) if one.now.is_open]
    return closed_unless(missing, f"none is open under {len(look.ids)} ids")


def _unmoved(_: ForeignMigration, look: ForeignLook) -> ClauseFinding:
    if look.read_at is None:
        return unknown("`__transaction_state` has not been read")
    ids = sorted(look.ids.items())
    late = [
        f"{name} was written {duration(one.rests_ms)} ago"
        for name, one in ids
        if one.rests_ms is not None and one.rests_ms < RESTS_FOR_MS
    ]
    dark = [name for name, one in ids if one.rests_ms is None]
    if dark and not late:
        return unknown(f"the last write under {dark[0]} is not known: the clock of its coordinator is not measured")
    return closed_unless(late, "nothing was written under them for a minute")


def _incarnation(name: str, now: IdNow) -> Incarnation:
    return Incarnation(name, now.producer_id, now.producer_epoch)


_STABLE = _Clause(name="group_stable", asks="The consumer group is stable.", judge=_stable)
_MEMBERS_NEW = _Clause(name="members_new", asks="Every member has joined since the bounce began.", judge=_members_new)
_AT_REST = _Clause(name="nothing_open", asks="No transaction is open under an old id.", judge=_at_rest)
GATES: Mapping[ForeignStage, Sequence[_Clause]] = {
    ForeignStage.PREFLIGHT: (
        _Clause(name="brokers", asks="Every broker has version 2.5 or later.", judge=_brokers),
        _Clause(name="ids_found", asks="The old ids are in the journal.", judge=_ids_found),
        _Clause(name="transaction_timeout", asks="Transactions time out within 10 s.", judge=_timeouts),
        _STABLE,
    ),
    ForeignStage.FIRST_BOUNCE: (
        _STABLE,
        _MEMBERS_NEW,
        _Clause(
            name="ids_initialised",
            asks="Every old id was initialised since the bounce began, which fences frozen producers.",
            judge=_initialised,
        ),
    ),
    ForeignStage.SECOND_BOUNCE: (
        _STABLE,
        _MEMBERS_NEW,
        _AT_REST,
        _Clause(name="ids_rest", asks="Nothing is written under the old ids any more.", judge=_unmoved),
    ),
    ForeignStage.VERIFY: (
        _STABLE,
        _AT_REST,
        _Clause(name="ids_rest", asks="Nothing is written under the old ids any more.", judge=_unmoved),
    ),
    ForeignStage.DONE: (),
}
