"""Which faults a stage of task processes has; what they do is seen by the runs."""

from __future__ import annotations

from pathlib import Path

from app.core.pipelines.pipeline import GroupProtocol, OffsetFencing, ProcessingGuarantee
from tests.fault_suite.plan import FREEZING, OF_TRANSACTIONS, Kind
from tests.fault_suite.task_stage import TaskStage


def kinds(folder: Path, *, brokers: int, guarantee: ProcessingGuarantee) -> set[Kind]:
    stage = TaskStage(1, folder, brokers=brokers, guarantee=guarantee)
    assert len(set(stage.kinds)) == len(stage.kinds)
    return set(stage.kinds)


def test_a_single_broker_stays_since_its_partitions_would_have_no_leader(tmp_path: Path) -> None:
    three = kinds(tmp_path, brokers=3, guarantee=ProcessingGuarantee.EXACTLY_ONCE_V2)
    one = kinds(tmp_path, brokers=1, guarantee=ProcessingGuarantee.EXACTLY_ONCE_V2)
    assert three - one == {
        Kind.COORDINATORS_MOVED,
        Kind.PREPARED_MOVED,
        Kind.BROKER_KILLED,
        Kind.BROKER_PAUSED,
        Kind.BROKERS_ROLLED,
    }
    assert one < three


def test_the_negative_control_has_every_fault_that_needs_no_transaction(tmp_path: Path) -> None:
    exactly_once = kinds(tmp_path, brokers=3, guarantee=ProcessingGuarantee.EXACTLY_ONCE_V2)
    control = kinds(tmp_path, brokers=3, guarantee=ProcessingGuarantee.AT_LEAST_ONCE)
    assert exactly_once - control == {*FREEZING, *OF_TRANSACTIONS}


def test_seeds_draw_both_group_protocols(tmp_path: Path) -> None:
    names = {TaskStage(seed, tmp_path, brokers=3).name for seed in range(20)}
    assert names == {f"3 brokers, task processes, {protocol} group" for protocol in GroupProtocol}


def test_exactly_once_has_the_whole_list(tmp_path: Path) -> None:
    v1 = kinds(tmp_path, brokers=3, guarantee=ProcessingGuarantee.EXACTLY_ONCE)
    assert v1 == kinds(tmp_path, brokers=3, guarantee=ProcessingGuarantee.EXACTLY_ONCE_V2)


def test_group_only_is_drawn_for_classic_groups_and_the_name_says_it(tmp_path: Path) -> None:
    def name(seed: int, fencing: OffsetFencing) -> str:
        v1 = ProcessingGuarantee.EXACTLY_ONCE
        return TaskStage(seed, tmp_path, brokers=3, guarantee=v1, fencing=fencing).name

    assert {name(seed, OffsetFencing.GROUP_ONLY) for seed in range(20)} == {
        "3 brokers, task processes, classic group, exactly_once with group_only"
    }
    assert {name(seed, OffsetFencing.GENERATION) for seed in range(20)} == {
        f"3 brokers, task processes, {protocol} group, exactly_once with generation" for protocol in GroupProtocol
    }
