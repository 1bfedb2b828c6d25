"""A foreign application: the gates that the brokers' state opens, and the unavailable evidence."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from app.products.migrations.foreign import (
    GATES,
    LACKING,
    ForeignId,
    ForeignLook,
    ForeignMember,
    ForeignMigration,
    ForeignStage,
    judged_foreign,
)
from app.products.migrations.judged import ClauseStanding
from app.products.migrations.look import IdNow
from tests.products.migrations.looks import NOW, at

_S = ForeignStage
MIGRATION = ForeignMigration(
    id="f", cluster="c", group="g", prefix="app-", started_at=at(-600), started_by="otto", stage_since=at(-600)
)


def one(epoch: int, *, written_s_ago: float = 300, **fields: Any) -> ForeignId:
    now = IdNow(producer_id=7, producer_epoch=epoch, at=at(-written_s_ago), partition=1, offset=9)
    rests_ms = int(written_s_ago * 1000)
    return replace(ForeignId(now=now, rests_ms=rests_ms, timeout_ms=10_000, moves_with_commits=False), **fields)


def member(name: str) -> ForeignMember:
    return ForeignMember(member_id=name, client_id=f"streams-{name}", host="/10.0.0.1")


def look(**fields: Any) -> ForeignLook:
    made = ForeignLook(
        at=NOW,
        read_at=NOW,
        ids={"app-0_0": one(3), "app-0_1": one(5)},
        group_state="Stable",
        members=(member("a"), member("b")),
        versions={"1": (4, 3)},
    )
    return replace(made, **fields)


def standing(stage: ForeignStage, name: str, seen: ForeignLook, before: ForeignLook | None = None) -> ClauseStanding:
    migration = MIGRATION
    while migration.stage is not stage:
        migration = migration.moved(before or look(), by="otto", why="as the test says")
    return {clause.name: clause.standing for clause in judged_foreign(migration, seen)}[name]


AFTER = look(ids={"app-0_0": one(4), "app-0_1": one(6)}, members=(member("c"), member("d")))


@pytest.mark.parametrize(
    ("stage", "name", "seen", "expected"),
    [
        (_S.PREFLIGHT, "brokers", look(versions={"1": (2, 4)}), ClauseStanding.CLOSED),
        (_S.PREFLIGHT, "brokers", look(versions={}), ClauseStanding.UNKNOWN),
        (_S.PREFLIGHT, "ids_found", look(ids={}), ClauseStanding.CLOSED),
        (_S.PREFLIGHT, "ids_found", look(read_at=None), ClauseStanding.UNKNOWN),
        (_S.PREFLIGHT, "transaction_timeout", look(ids={"app-0": one(1, timeout_ms=60_000)}), ClauseStanding.CLOSED),
        (_S.PREFLIGHT, "group_stable", look(group_state="PreparingRebalance"), ClauseStanding.CLOSED),
        (_S.PREFLIGHT, "group_stable", look(group_state=None), ClauseStanding.UNKNOWN),
        (_S.FIRST_BOUNCE, "members_new", AFTER, ClauseStanding.OPEN),
        (_S.FIRST_BOUNCE, "members_new", replace(AFTER, members=(member("a"), member("d"))), ClauseStanding.CLOSED),
        (_S.FIRST_BOUNCE, "ids_initialised", AFTER, ClauseStanding.OPEN),
        (_S.FIRST_BOUNCE, "ids_initialised", look(ids={"app-0_0": one(4), "app-0_1": one(5)}), ClauseStanding.CLOSED),
        (
            _S.FIRST_BOUNCE,
            "ids_initialised",
            look(ids={"app-0_0": one(4), "app-0_1": one(6, moves_with_commits=True)}),
            ClauseStanding.UNKNOWN,
        ),
        (_S.SECOND_BOUNCE, "ids_rest", look(), ClauseStanding.OPEN),
        (_S.SECOND_BOUNCE, "ids_rest", look(ids={"app-0_0": one(3, written_s_ago=2)}), ClauseStanding.CLOSED),
        # A coordinator 120 s behind wrote it just now: its stamp alone says that it rests.
        (
            _S.SECOND_BOUNCE,
            "ids_rest",
            look(ids={"app-0_0": one(3, written_s_ago=120, rests_ms=0)}),
            ClauseStanding.CLOSED,
        ),
        (_S.SECOND_BOUNCE, "ids_rest", look(ids={"app-0_0": one(3, rests_ms=None)}), ClauseStanding.UNKNOWN),
        (
            _S.VERIFY,
            "ids_rest",
            look(ids={"app-0_0": one(3), "app-0_1": one(5, rests_ms=None)}),
            ClauseStanding.UNKNOWN,
        ),
        (
            _S.VERIFY,
            "nothing_open",
            look(ids={"app-0_0": one(3, now=IdNow(producer_id=7, producer_epoch=3, is_open=True))}),
            ClauseStanding.CLOSED,
        ),
    ],
)
def test_the_brokers_state_opens_a_condition_or_closes_it(
    stage: ForeignStage, name: str, seen: ForeignLook, expected: ClauseStanding
) -> None:
    assert standing(stage, name, seen) is expected


def test_every_stage_but_the_last_lists_unavailable_evidence() -> None:
    assert set(GATES) == set(LACKING) == set(ForeignStage)
    assert all(LACKING[stage] for stage in ForeignStage if stage is not _S.DONE)
    assert "it is not in the journals" in LACKING[_S.FIRST_BOUNCE][0]


def test_a_stage_that_is_left_keeps_what_was_proven_then() -> None:
    moved = MIGRATION.moved(look(), by="otto", why=None)
    (mark,) = moved.marks
    assert (moved.stage, mark.stage, mark.by) == (_S.FIRST_BOUNCE, _S.PREFLIGHT, "otto")
    assert {name: held.producer_epoch for name, held in mark.ids.items()} == {"app-0_0": 3, "app-0_1": 5}
    assert [one.member_id for one in mark.members] == ["a", "b"]
    done = moved.moved(AFTER, by="otto", why=None).moved(AFTER, by="otto", why=None).moved(AFTER, by="o", why=None)
    assert (done.stage, done.ended_at) == (_S.DONE, NOW)
    with pytest.raises(ValueError, match="it is done"):
        done.moved(AFTER, by="otto", why=None)
