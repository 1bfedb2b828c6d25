"""The conditions of the preflight, and those that may be waived."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from app.core.runs.mode import Mode
from app.products.migrations.decision import Enter, Patience, Stop, Wait, decide
from app.products.migrations.judged import Judged, Standing
from app.products.migrations.look import IdNow, Look
from app.products.migrations.migration import Stage
from app.products.migrations.preflight import PREFLIGHT
from tests.products.migrations.looks import at, group, held, instance, look, member, migration, task


def judged(name: str, seen: Look, **fields: Any) -> Judged:
    clause = next(one for one in PREFLIGHT if one.name == name)
    return clause.judged(migration(Stage.PREFLIGHT, **fields), seen)


def facts(**fields: Any) -> Look:
    base = look().preflight
    assert base is not None
    return look(preflight=replace(base, **fields))


def test_when_all_is_well_the_first_bounce_begins() -> None:
    decision = decide(migration(Stage.PREFLIGHT), look())
    assert isinstance(decision, Enter)
    assert decision.stage is Stage.FIRST_BOUNCE


def test_an_older_broker_is_refused_with_the_reason_that_kip_447_gives() -> None:
    found = judged("brokers", facts(versions={"1": (4, 3), "2": (2, 4)}))
    assert found.standing is Standing.CLOSED
    assert "broker 2 has version 2.4" in found.seen
    assert "KIP-447" in found.seen
    assert judged("brokers", facts(versions={"1": None})).standing is Standing.UNKNOWN
    assert judged("brokers", facts(versions={}, brokers_problem="no answer")).seen == "no answer"


@pytest.mark.parametrize(
    ("name", "seen", "standing"),
    [
        ("rights", facts(rights_refused=("DescribeTransactions was refused",)), Standing.CLOSED),
        ("rights", facts(rights_refused=None), Standing.UNKNOWN),
        ("rights", facts(rights_unknown="its coordinator moves"), Standing.UNKNOWN),
        ("rights", facts(rights_refused=("no",), rights_unknown="its coordinator moves"), Standing.CLOSED),
        ("no_hanging", facts(hanging=("one hangs",)), Standing.CLOSED),
        ("no_hanging", facts(hanging_unknown="not searched yet"), Standing.UNKNOWN),
        ("no_collision", facts(owned_by_others=("p0 belongs to pipeline other",)), Standing.CLOSED),
        ("no_collision", look(ids={"p0": IdNow(producer_id=9, producer_epoch=0, is_open=True)}), Standing.CLOSED),
        ("no_collision", look(read_at=None), Standing.UNKNOWN),
        ("transaction_timeout", facts(transaction_timeout_ms=60_000), Standing.CLOSED),
        ("abort_sweep", facts(abort_sweep_ms=60_000), Standing.CLOSED),
        ("abort_sweep", facts(abort_sweep_ms=None), Standing.UNKNOWN),
        ("modes_known", look(instances=(instance(0), replace(instance(1), mode=None))), Standing.CLOSED),
        ("modes_known", look(instances=(instance(0, Mode.V2), instance(1, Mode.V2))), Standing.CLOSED),
        ("modes_known", look(instances=(instance(0, Mode.V2), instance(1, Mode.GROUP_ONLY))), Standing.CLOSED),
        ("all_run", look(tasks=(task(0, held("p0", 3)),)), Standing.CLOSED),
        ("group_stable", look(group=group(state="PreparingRebalance")), Standing.CLOSED),
        ("group_stable", look(group=None), Standing.UNKNOWN),
        ("no_strangers", look(group=group(members=(member(0, task=None, member_id="x"),))), Standing.CLOSED),
        ("no_strangers", look(group=None), Standing.UNKNOWN),
    ],
)
def test_it_is_refused_for_want_of(name: str, seen: Look, standing: Standing) -> None:
    assert judged(name, seen).standing is standing
    decision = decide(migration(Stage.PREFLIGHT, stage_since=at(0), state_since=at(0)), seen)
    assert isinstance(decision, Wait)
    stopped = decide(migration(Stage.PREFLIGHT), seen, patience=Patience())
    assert isinstance(stopped, Stop)
    assert name.replace("_", " ") in stopped.missing


def test_a_group_whose_offsets_were_not_written_down_is_refused() -> None:
    assert judged("offsets", look(), offsets={}).standing is Standing.CLOSED


def test_a_long_timeout_may_be_answered_for_and_an_old_broker_may_not() -> None:
    reasons = {"transaction_timeout": "batches of an hour", "brokers": "we know better"}
    assert judged("transaction_timeout", facts(transaction_timeout_ms=60_000), waived=reasons).seen.endswith(
        "waived: batches of an hour"
    )
    assert judged("brokers", facts(versions={"1": (2, 4)}), waived=reasons).standing is Standing.CLOSED
