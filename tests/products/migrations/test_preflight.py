"""The conditions of the preflight, and those that may be waived."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from app.core.runs.mode import Mode
from app.products.migrations.decision import Enter, EvidencePatience, Stop, Wait, decide
from app.products.migrations.judged import ClauseStanding, Judged
from app.products.migrations.look import IdNow, MigrationLook
from app.products.migrations.migration import Stage
from app.products.migrations.preflight import PREFLIGHT
from tests.products.migrations.looks import at, group, held, instance, look, member, migration, task


def judged(name: str, seen: MigrationLook, **fields: Any) -> Judged:
    clause = next(one for one in PREFLIGHT if one.name == name)
    return clause.judged(migration(Stage.PREFLIGHT, **fields), seen)


def facts(**fields: Any) -> MigrationLook:
    base = look().preflight
    assert base is not None
    return look(preflight=replace(base, **fields))


def test_when_all_is_well_the_first_bounce_begins() -> None:
    decision = decide(migration(Stage.PREFLIGHT), look())
    assert isinstance(decision, Enter)
    assert decision.stage is Stage.FIRST_BOUNCE


def test_an_older_broker_is_refused_with_the_reason_that_kip_447_gives() -> None:
    found = judged("brokers", facts(versions={"1": (4, 3), "2": (2, 4)}))
    assert found.standing is ClauseStanding.CLOSED
    assert "broker 2 has version 2.4" in found.seen
    assert "KIP-447" in found.seen
    assert judged("brokers", facts(versions={"1": None})).standing is ClauseStanding.UNKNOWN
    assert judged("brokers", facts(versions={}, brokers_problem="no answer")).seen == "no answer"


@pytest.mark.parametrize(
    ("name", "seen", "standing"),
    [
        ("rights", facts(rights_refused=("DescribeTransactions was refused",)), ClauseStanding.CLOSED),
        ("rights", facts(rights_refused=None), ClauseStanding.UNKNOWN),
        ("rights", facts(rights_unknown="its coordinator moves"), ClauseStanding.UNKNOWN),
        ("rights", facts(rights_refused=("no",), rights_unknown="its coordinator moves"), ClauseStanding.CLOSED),
        ("no_hanging", facts(hanging=("one hangs",)), ClauseStanding.CLOSED),
        ("no_hanging", facts(hanging_unknown="not searched yet"), ClauseStanding.UNKNOWN),
        ("no_collision", facts(owned_by_others=("p0 belongs to pipeline other",)), ClauseStanding.CLOSED),
        ("no_collision", look(ids={"p0": IdNow(producer_id=9, producer_epoch=0, is_open=True)}), ClauseStanding.CLOSED),
        ("no_collision", look(read_at=None), ClauseStanding.UNKNOWN),
        ("transaction_timeout", facts(transaction_timeout_ms=60_000), ClauseStanding.CLOSED),
        ("abort_sweep", facts(abort_sweep_ms=60_000), ClauseStanding.CLOSED),
        ("abort_sweep", facts(abort_sweep_ms=None), ClauseStanding.UNKNOWN),
        ("modes_known", look(instances=(instance(0), replace(instance(1), mode=None))), ClauseStanding.CLOSED),
        ("modes_known", look(instances=(instance(0, Mode.V2), instance(1, Mode.V2))), ClauseStanding.CLOSED),
        ("modes_known", look(instances=(instance(0, Mode.V2), instance(1, Mode.GROUP_ONLY))), ClauseStanding.CLOSED),
        ("all_run", look(tasks=(task(0, held("p0", 3)),)), ClauseStanding.CLOSED),
        ("group_stable", look(group=group(state="PreparingRebalance")), ClauseStanding.CLOSED),
        ("group_stable", look(group=None), ClauseStanding.UNKNOWN),
        ("no_strangers", look(group=group(members=(member(0, task=None, member_id="x"),))), ClauseStanding.CLOSED),
        ("no_strangers", look(group=None), ClauseStanding.UNKNOWN),
    ],
)
def test_it_is_refused_for_want_of(name: str, seen: MigrationLook, standing: ClauseStanding) -> None:
    assert judged(name, seen).standing is standing
    decision = decide(migration(Stage.PREFLIGHT, stage_since=at(0), state_since=at(0)), seen)
    assert isinstance(decision, Wait)
    stopped = decide(migration(Stage.PREFLIGHT), seen, patience=EvidencePatience())
    assert isinstance(stopped, Stop)
    assert name.replace("_", " ") in stopped.missing


def test_a_group_whose_offsets_were_not_written_down_is_refused() -> None:
    assert judged("offsets", look(), offsets={}).standing is ClauseStanding.CLOSED


def test_a_long_timeout_may_be_answered_for_and_an_old_broker_may_not() -> None:
    reasons = {"transaction_timeout": "batches of an hour", "brokers": "we know better"}
    assert judged("transaction_timeout", facts(transaction_timeout_ms=60_000), waived=reasons).seen.endswith(
        "waived: batches of an hour"
    )
    assert judged("brokers", facts(versions={"1": (2, 4)}), waived=reasons).standing is ClauseStanding.CLOSED
