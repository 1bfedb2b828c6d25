"""A run from its seed: the same faults again, every kind met, and what is written down of it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.pipelines.pipeline import GroupProtocol
from tests.fault_suite import ledger
from tests.fault_suite.fault_log import FaultLog
from tests.fault_suite.freeze_points import Point
from tests.fault_suite.freezes import Outlasted
from tests.fault_suite.ledger import Entry, KindFigures
from tests.fault_suite.plan import FREEZING, LASTS_S, Fault, Kind, faults
from tests.fault_suite.standstill import Standstills
from tests.fault_suite.task_stage import TaskStage
from tests.support.definitions import a_definition
from tests.support.pipelines import SESSION_TIMEOUT_MS, TestPipeline

SEEDS = st.integers(0, 2**32 - 1)


def first(count: int, seed: int, kinds: tuple[Kind, ...] = tuple(Kind)) -> list[Fault]:
    return list(islice(faults(seed, kinds), count))


@given(SEEDS)
def test_a_seed_draws_the_same_faults_again_however_many_are_taken(seed: int) -> None:
    assert first(40, seed)[:25] == first(25, seed)


def test_another_seed_draws_others() -> None:
    assert first(20, 1) != first(20, 2)


@given(SEEDS)
def test_each_kind_comes_once_in_as_many_faults_as_there_are_kinds(seed: int) -> None:
    for turn in range(3):
        drawn = first(3 * len(Kind), seed)[turn * len(Kind) : (turn + 1) * len(Kind)]
        assert {fault.kind for fault in drawn} == set(Kind)


@given(SEEDS)
def test_workers_are_frozen_at_every_point_and_anywhere(seed: int) -> None:
    drawn = first(len(Point) + 1, seed, (Kind.WORKER_FROZEN,))
    assert {fault.point for fault in drawn} == {None, *Point}


@given(SEEDS)
@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_at_every_point_some_workers_sleep_past_their_session_and_past_their_transaction(
    tmp_path_factory: pytest.TempPathFactory, protocol: GroupProtocol, seed: int
) -> None:
    stage = TaskStage(1, tmp_path_factory.getbasetemp(), brokers=1, protocol=protocol)
    stage.pipeline = TestPipeline("", a_definition(group_protocol=protocol, session_timeout_ms=SESSION_TIMEOUT_MS), 1)
    drawn = first(3 * (len(Point) + 1), seed, FREEZING)
    outlasted = {(fault.point, stage.timeouts.outlasted(fault.lasts_s)) for fault in drawn}
    for point in (None, *Point):
        assert {(point, Outlasted.NEITHER), (point, Outlasted.BOTH)} <= outlasted
    # The session of a KIP-848 group is as long as the transaction timeout.
    assert ((Point.IN_REVOKE, Outlasted.SESSION) in outlasted) is (protocol is GroupProtocol.CLASSIC)


@given(SEEDS)
def test_faults_last_as_in_the_table_and_hit_a_present_target(seed: int) -> None:
    for fault in first(40, seed):
        assert any(shortest <= fault.lasts_s <= longest for shortest, longest in LASTS_S[fault.kind])
        assert fault.of([7]) == 7
        assert fault.of([1, 2, 3]) in (1, 2, 3)
        assert (fault.point is not None) <= (fault.kind in (Kind.WORKER_FROZEN, Kind.WORKER_REPLACED))


def test_a_kind_that_a_cluster_cannot_do_is_not_drawn() -> None:
    assert {fault.kind for fault in first(50, 3, (Kind.SLOW, Kind.DELAYED))} == {Kind.SLOW, Kind.DELAYED}


def test_a_fault_is_on_the_disk_before_it_is_done_and_after(tmp_path: Path) -> None:
    log = FaultLog(tmp_path / "faults.jsonl", clock=iter([100.0, 101.5, 103.25]).__next__)
    (fault,) = first(1, 5)
    with log.doing(fault) as did:
        assert [line.done for line in log.read()] == [None]
        did("worker 1, pid 17")
    before, after = log.read()
    assert (before.fault, after.fault) == (fault, fault)
    assert (before.at, before.at_s) == ("1970-01-01T00:01:41.500+00:00", 1.5)
    assert (after.at_s, after.done, after.failed) == (3.25, ("worker 1, pid 17",), None)


def test_a_fault_that_could_not_be_done_is_reported_and_ends_the_run(tmp_path: Path) -> None:
    log = FaultLog(tmp_path / "faults.jsonl")
    with pytest.raises(RuntimeError), log.doing(first(1, 5)[0]):
        raise RuntimeError("no target")
    assert log.read()[-1].failed == "RuntimeError: no target"


def test_a_gap_belongs_to_the_fault_that_began_in_it() -> None:
    standstills = Standstills()
    standstills.output(0, 1.0)
    standstills.begun(Kind.SLOW, 10.0)
    standstills.output(0, 10.5)
    assert standstills.by_kind == {Kind.SLOW: 9.5}


def test_a_gap_in_which_several_began_is_of_none_of_them_alone() -> None:
    standstills = Standstills()
    standstills.output(0, 10.5)
    standstills.begun(Kind.BROKER_KILLED, 11.0)
    standstills.begun(Kind.DELAYED, 12.0)
    standstills.output(0, 14.5)
    assert standstills.by_kind == {}
    assert standstills.longest_s == 4.0


def test_a_gap_after_a_fault_is_still_its_gap_and_partitions_are_apart() -> None:
    standstills = Standstills()
    standstills.expected(0, 0.0)
    standstills.expected(1, 0.0)
    standstills.begun(Kind.WORKER_KILLED, 1.0)
    standstills.output(0, 2.0)
    standstills.output(1, 2.0)
    for at in range(3, 9):
        standstills.output(0, float(at))
    assert standstills.by_kind == {Kind.WORKER_KILLED: 2.0}
    assert standstills.silent_since(7.5) == [1]
    standstills.ended(8.0)
    assert standstills.by_kind == {Kind.WORKER_KILLED: 6.0}


def test_a_standstill_begins_when_records_should_flow() -> None:
    standstills = Standstills()
    standstills.begun(Kind.PARTITION_ADDED, 1.0)
    standstills.expected(4, 2.0)
    standstills.expected(4, 3.0)
    assert standstills.silent_since(2.0) == [4]
    standstills.output(4, 5.0)
    assert standstills.silent_since(2.0) == []
    assert standstills.by_kind == {Kind.PARTITION_ADDED: 3.0}


def test_before_any_fault_a_gap_is_nobodys() -> None:
    standstills = Standstills()
    standstills.expected(0, 0.0)
    standstills.output(0, 5.0)
    assert (standstills.longest_s, standstills.by_kind) == (5.0, {})


def entry(**changes: object) -> Entry:
    told = Entry(
        faults=2,
        not_done=0,
        records=10,
        transactions=3,
        lost=0,
        duplicated=0,
        torn=0,
        out_of_order=0,
        longest_standstill_s=4.5,
        seed=1,
        seconds=60,
        cluster="one broker",
        by_kind={Kind.SLOW: KindFigures(1, 1.0), Kind.BROKER_KILLED: KindFigures(1, 4.5)},
        failure=None,
        judged=True,
        commit="abc",
        changed_since_commit=False,
        date="2026-11-22T02:00:00+00:00",
        versions={"kafka": "4.3.1"},
    )
    return msgspec.structs.replace(told, **changes)


def test_runs_are_added_up_and_those_that_failed_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "results" / "ledger.jsonl"
    runs = [entry(), entry(seed=2, lost=1, by_kind={Kind.SLOW: KindFigures(2, 0.5)}), entry(failure="never at rest")]
    for run in runs:
        ledger.append(run, path)
    assert ledger.read(path) == runs
    assert len(path.read_text().splitlines()) == 3
    added = ledger.total(ledger.read(path))
    assert (added.runs, added.failed, added.faults, added.records, added.lost) == (3, 2, 6, 30, 1)
    assert added.by_kind == {Kind.BROKER_KILLED: KindFigures(2, 4.5), Kind.SLOW: KindFigures(4, 1.0)}
    assert list(added.by_kind) == [Kind.BROKER_KILLED, Kind.SLOW]


def test_outlasted_timeouts_are_added_up_and_a_line_without_them_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger.append(entry(freezes={"in-revoke": {Outlasted.BOTH: 1, Outlasted.NEITHER: 2}}), path)
    ledger.append(entry(freezes={"anywhere": {Outlasted.SESSION: 1}, "in-revoke": {Outlasted.BOTH: 1}}), path)
    old = msgspec.json.decode(ledger.line_of(entry()))
    del old["freezes"]
    with path.open("ab") as file:
        file.write(msgspec.json.encode(old) + b"\n")
    runs = ledger.read(path)
    assert runs[-1].freezes is None
    assert ledger.total(runs).freezes == {
        "in-revoke": {Outlasted.NEITHER: 2, Outlasted.BOTH: 2},
        "anywhere": {Outlasted.SESSION: 1},
    }


def test_a_run_without_a_whole_verdict_adds_only_its_errors_and_its_freezes() -> None:
    """The other effects of its faults are unknown."""
    by_kind = {Kind.SLOW: KindFigures(2, 180.0)}
    unjudged = entry(judged=False, failure="never at rest", lost=None, duplicated=3, by_kind=by_kind)
    added = ledger.total([entry(), unjudged])
    assert (added.runs, added.failed, added.unjudged, added.faults, added.records) == (2, 1, 1, 2, 10)
    assert (added.lost, added.duplicated) == (0, 3)
    assert added.by_kind[Kind.SLOW] == KindFigures(1, 180.0)


@pytest.mark.parametrize("wrong", ["lost", "duplicated", "torn", "out_of_order"])
def test_a_run_with_anything_wrong_is_not_exact(wrong: str) -> None:
    assert entry().is_exact
    assert not entry(**{wrong: 1}).is_exact
