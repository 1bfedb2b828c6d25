"""Alerts during and after a migration: a retired id was initialised again, or a stale member is active."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from app.core.runs.mode import Mode
from app.products.migrations.evidence import partition_ids, task_ids
from app.products.migrations.look import MigrationLook, MigrationMember
from app.products.migrations.migration import Migration, Stage


class AlarmKind(StrEnum):
    GIVEN_UP_ID_LIVES = "given_up_id_lives"
    OLDER_MEMBER = "older_member"


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """key: identifies the subject; each key is reported once. host, pid: the process concerned, if known."""

    kind: AlarmKind
    key: str
    at: datetime
    sentence: str
    host: str | None = None
    pid: int | None = None


def alarms_of(migration: Migration, look: MigrationLook) -> list[Alarm]:
    """Return every alert that the state shows. The caller reports each key once."""
    return [*_given_up_ids(migration, look), *_older_members(migration, look), *_silent_members(migration, look)]


def _given_up_ids(migration: Migration, look: MigrationLook) -> list[Alarm]:
    """Find retired ids that another producer has initialised since Fenceline's fence."""
    found: list[Alarm] = []
    for name in _given_up(migration, look):
        fence, now = migration.gave_up(name), look.now_of(name)
        if fence is None or now is None or look.read_at is None or look.read_at <= fence.at:
            continue
        if now == fence.incarnation or now in look.fenced_by_hand:
            continue
        who = look.teller_of(now)
        where = f"{who.name} (process {who.pid} on {who.host})" if who else "see the fencing events for its client"
        found.append(
            Alarm(
                kind=AlarmKind.GIVEN_UP_ID_LIVES,
                key=now.words,
                at=look.at,
                sentence=f"retired id {name} is in use: fenced at epoch {fence.incarnation.producer_epoch}, "
                f"now at producer {now.producer_id}, epoch {now.producer_epoch}; {where}",
                host=who.host if who else None,
                pid=who.pid if who else None,
            )
        )
    return found


def _older_members(migration: Migration, look: MigrationLook) -> list[Alarm]:
    forbidden = _forbidden(migration)
    return [
        Alarm(
            kind=AlarmKind.OLDER_MEMBER,
            key=f"{stray.ordinal}/{stray.lease}/{stray.task}/{stray.attempt}",
            at=look.at,
            sentence=f"task {stray.ordinal}.{stray.task} of ended lease {stray.lease} sent a heartbeat as "
            f"{stray.mode}: process {stray.pid} on {stray.host}. End it there",
            host=stray.host,
            pid=stray.pid,
        )
        for stray in look.strays
        if stray.mode in forbidden and stray.heard_at >= migration.stage_since
    ]


def _silent_members(migration: Migration, look: MigrationLook) -> list[Alarm]:
    """Find members of ended leases in the coordinator's list; their processes may be alive without heartbeats."""
    forbidden = _forbidden(migration)
    current = {(one.ordinal, one.lease) for one in look.instances}
    return [
        Alarm(
            kind=AlarmKind.OLDER_MEMBER,
            key=f"member {member.member_id}",
            at=look.at,
            sentence=f"task {name.ordinal}.{name.task} of ended lease {name.lease} is a member of the group "
            f"as {member.mode}: {member.name}. End its process{_process(member)} there",
            host=member.host,
            pid=member.pid,
        )
        for member in (() if look.group is None else look.group.members)
        if (name := member.task) is not None and (name.ordinal, name.lease) not in current and member.mode in forbidden
    ]


def _process(member: MigrationMember) -> str:
    return "" if member.pid is None else f" {member.pid}"


def _given_up(migration: Migration, look: MigrationLook) -> tuple[str, ...]:
    """Return the retired ids of this stage, which no client may initialise."""
    match migration.stage:
        case Stage.SECOND_BOUNCE | Stage.VERIFY if migration.goal is Mode.V2:
            return partition_ids(migration, look)
        case Stage.BACK_TO_GENERATION | Stage.BACK_TO_GROUP_ONLY | Stage.VERIFY if migration.goal is not Mode.V2:
            return task_ids(migration, look)
        case _:
            return ()


def _forbidden(migration: Migration) -> frozenset[Mode | None]:
    match migration.stage:
        case Stage.SECOND_BOUNCE:
            return frozenset({Mode.GROUP_ONLY})
        case Stage.VERIFY if migration.goal is Mode.V2:
            return frozenset({Mode.GROUP_ONLY, Mode.GENERATION})
        case Stage.BACK_TO_GROUP_ONLY | Stage.VERIFY:
            return frozenset({Mode.V2})
        case _:
            return frozenset()
