"""The migration of an application that Fenceline does not launch: planned and watched, while its operator bounces it.

What the brokers' journals say is judged as in a migration of our own. What only the application could say is no clause:
it is named as evidence that cannot be had (`LACKING`), and whoever bounces answers for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from app.kit.words import duration
from app.products.migrations.clause import Finding, closed, closed_unless, open_, unknown
from app.products.migrations.judged import Judged
from app.products.migrations.look import STABLE, IdNow, Incarnation

NEEDED_VERSION = (2, 5)
LONGEST_TIMEOUT_MS = 10_000
RESTS_FOR_MS = 60_000


class ForeignStage(StrEnum):
    """
    PREFLIGHT ─▶ FIRST_BOUNCE ─▶ SECOND_BOUNCE ─▶ VERIFY ─▶ DONE: each as its operator says that it begins.
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
        "In which mode each instance runs: no journal says what a client sends with its offsets.",
        "Which ids the application will use for its tasks.",
    ),
    ForeignStage.FIRST_BOUNCE: (
        "That whoever initialised an id sends its generation: the journals hold none. Its version must say it.",
        "What a process held that was stopped: nobody reports it, so only that nothing is open can be seen.",
    ),
    ForeignStage.SECOND_BOUNCE: (
        "That an instance has one producer a task: only that the old ids rest, and that the group's members are new.",
        "That nobody sleeps under an old id: fence each of them once, by `fenceline fence`, and look here again.",
    ),
    ForeignStage.VERIFY: (
        "That no record is in the output twice: without its definition no audit knows which ids are due.",
    ),
    ForeignStage.DONE: (),
}
"""Evidence that cannot be had of somebody else's application, by stage."""


class ForeignMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    client_id: str
    host: str


class ForeignId(msgspec.Struct, frozen=True, kw_only=True):
    """moves_with_commits: its client is one of KIP-890, whose epoch rises with each transaction and proves no init.

    rests_ms: for how long nothing was written under it, at least, by its coordinator's clock; None: not known.
    """

    now: IdNow
    rests_ms: int | None
    timeout_ms: int
    moves_with_commits: bool


class ForeignLook(msgspec.Struct, frozen=True, kw_only=True):
    """group_state, members: by the group's coordinator; None where it does not say. versions: of the brokers."""

    at: datetime
    read_at: datetime | None
    ids: Mapping[str, ForeignId]
    group_state: str | None
    members: tuple[ForeignMember, ...] | None
    versions: Mapping[str, tuple[int, int] | None]


class ForeignMark(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that was left: by whom, and what was proven then. ids, members: as they were when the next one began."""

    stage: ForeignStage
    at: datetime
    by: str
    why: str | None
    clauses: tuple[Judged, ...]
    ids: dict[str, Incarnation]
    members: tuple[ForeignMember, ...]


class ForeignMigration(msgspec.Struct, frozen=True, kw_only=True):
    """prefix: how the old ids begin, one for each input partition. marks: the stages that were left, in their order."""

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
        """What was so when the present stage began."""
        return self.marks[-1] if self.marks else None

    def moved(self, look: ForeignLook, *, by: str, why: str | None) -> ForeignMigration:
        """In the next stage, with what is proven now. Past DONE there is none: a ValueError."""
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
    judge: Callable[[ForeignMigration, ForeignLook], Finding]


def judged_foreign(migration: ForeignMigration, look: ForeignLook) -> tuple[Judged, ...]:
    """The clauses of its stage that the brokers can answer."""
    found = ((clause, clause.judge(migration, look)) for clause in GATES[migration.stage])
    return tuple(
        Judged(name=clause.name, asks=clause.asks, standing=finding.standing, seen=finding.seen)
        for clause, finding in found
    )


def _brokers(_: ForeignMigration, look: ForeignLook) -> Finding:
    if not look.versions:
        return unknown("no broker has told its version")
    old = [name for name, version in look.versions.items() if version is not None and version < NEEDED_VERSION]
    if old:
        return closed(f"broker {old[0]} is before 2.5, and takes offsets of members that have left (KIP-447)")
    silent = [name for name, version in look.versions.items() if version is None]
    return unknown(f"broker {silent[0]} does not tell its version") if silent else open_("all are of 2.5 or later")


def _ids_found(migration: ForeignMigration, look: ForeignLook) -> Finding:
    if look.read_at is None:
        return unknown("`__transaction_state` has not been read")
    if not look.ids:
        return closed(f"no id begins with {migration.prefix}")
    return open_(f"{len(look.ids)} ids begin with {migration.prefix}")


def _timeouts(_: ForeignMigration, look: ForeignLook) -> Finding:
    slow = [(name, one.timeout_ms) for name, one in look.ids.items() if one.timeout_ms > LONGEST_TIMEOUT_MS]
    long = [f"{name}: {timeout_ms / 1000:g} s" for name, timeout_ms in slow]
    return closed_unless(long, "every transaction times out within 10 s")


def _stable(_: ForeignMigration, look: ForeignLook) -> Finding:
    if look.group_state is None:
        return unknown("the group's coordinator has not answered")
    if look.group_state != STABLE:
        return closed(f"the group is {look.group_state}")
    return open_(f"it is stable, with {len(look.members or ())} members")


def _members_new(migration: ForeignMigration, look: ForeignLook) -> Finding:
    """A client that begins anew joins as another member, unless it is a static one."""
    began = migration.began
    if look.members is None or began is None:
        return unknown("the group's coordinator has not answered")
    before = {one.member_id for one in began.members}
    old = [f"{one.client_id} on {one.host} has not been bounced" for one in look.members if one.member_id in before]
    return closed_unless(old, f"all {len(look.members)} members have joined since it began")


def _initialised(migration: ForeignMigration, look: ForeignLook) -> Finding:
    began = migration.began
    if look.read_at is None or began is None:
        return unknown("`__transaction_state` has not been read")
    if any(one.moves_with_commits for one in look.ids.values()):
        return unknown("its clients raise the epoch with every transaction (KIP-890), so that a rise proves no init")
    missing = [
        f"{name} is still at producer {held.producer_id}, epoch {held.producer_epoch}"
        for name, held in sorted(began.ids.items())
        if name in look.ids and _incarnation(name, look.ids[name].now) == held
    ]
    return closed_unless(missing, f"all {len(began.ids)} ids were initialised since it began")


def _at_rest(_: ForeignMigration, look: ForeignLook) -> Finding:
    if look.read_at is None:
        return unknown("`__transaction_state` has not been read")
    missing = [f"a transaction is open under {name}" for name, one in sorted(look.ids.items()) if one.now.is_open]
    return closed_unless(missing, f"none is open under {len(look.ids)} ids")


def _unmoved(_: ForeignMigration, look: ForeignLook) -> Finding:
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
        return unknown(f"when {dark[0]} was written last is not known: the clock of its coordinator is not measured")
    return closed_unless(late, "nothing was written under them for a minute")


def _incarnation(name: str, now: IdNow) -> Incarnation:
    return Incarnation(name, now.producer_id, now.producer_epoch)


_STABLE = _Clause(name="group_stable", asks="The consumer group is stable.", judge=_stable)
_MEMBERS_NEW = _Clause(name="members_new", asks="Every member has joined since the bounce began.", judge=_members_new)
_AT_REST = _Clause(name="nothing_open", asks="No transaction is open under an old id.", judge=_at_rest)
GATES: Mapping[ForeignStage, Sequence[_Clause]] = {
    ForeignStage.PREFLIGHT: (
        _Clause(name="brokers", asks="Every broker is of 2.5 or later.", judge=_brokers),
        _Clause(name="ids_found", asks="The old ids are in the journal.", judge=_ids_found),
        _Clause(name="transaction_timeout", asks="Transactions time out within 10 s.", judge=_timeouts),
        _STABLE,
    ),
    ForeignStage.FIRST_BOUNCE: (
        _STABLE,
        _MEMBERS_NEW,
        _Clause(
            name="ids_initialised",
            asks="Every old id was initialised since the bounce began: that shuts out who sleeps under it.",
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
