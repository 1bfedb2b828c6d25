"""The transitions of a drill up to its verdict, and the observed events."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.audit_figures import AuditFigures
from app.core.wire.drill import ActStep
from app.kit.errors import IllegalTransitionError
from app.products.drills import judging
from app.products.drills.drill import TRANSITIONS, DrillKind, DrillState, DrillVerdict, Target, TargetState
from app.products.drills.timeline import DrillLook, FencingLook
from tests.products.drills.told import CLEAN, a_drill, at, frozen_and_thawed, hear, look, sentences, until_well


def test_survived_freeze_has_its_events_in_order() -> None:
    drill = until_well(judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True))
    assert drill.state is DrillState.AUDITING
    assert drill.recovered_at == at(16.5)
    told = sentences(drill)
    for sentence in (
        "task 0 (process 40 on w1) is frozen (SIGSTOP)",
        "in-0 has no commits since offset 20",
        "the group rebalances: generation 5 → 6, now with 2 members",
        "in-0 has commits again after 7.5 s",
        "task 0 (process 40 on w1) is thawed (SIGCONT)",
        "fl.t.flights.0.0: producer:epoch 7:1 → 7:3",
        "the pipeline has recovered 15.5 s after the start of the drill",
    ):
        assert sentence in told, told
    assert drill.watched.longest == ("in-0", 7.5)
    drill = judging.conclude(drill, CLEAN, no_audit="", now=at(30))
    assert (drill.state, drill.verdict) == (DrillState.ENDED, DrillVerdict.SURVIVED)
    assert drill.sentence == (
        "lost 0, duplicated 0 of 400 expected records; recovery time at most 7.5 s (in-0, expected at most 18 s)"
    )


@pytest.mark.parametrize(
    ("audit", "verdict", "sentence"),
    [
        (
            replace(CLEAN, lost=2),
            DrillVerdict.NOT_SURVIVED,
            "ids lost: 2, duplicated: 0, without an input: 0, of 400 expected",
        ),
        (replace(CLEAN, duplicated=3), DrillVerdict.NOT_SURVIVED, "ids lost: 0, duplicated: 3,"),
        (replace(CLEAN, unexpected=1), DrillVerdict.NOT_SURVIVED, "ids lost: 0, duplicated: 0, without an input: 1,"),
        (
            replace(CLEAN, dangling=1),
            DrillVerdict.NOT_SURVIVED,
            "ids lost: 0, duplicated: 0, without an input: 0, dangling references: 1, of 400 expected",
        ),
        (replace(CLEAN, incomplete="a leader was away"), DrillVerdict.NOT_AUDITED, "not audited: a leader was away"),
        (replace(CLEAN, expected=0), DrillVerdict.NOT_AUDITED, "not audited: no output was expected in its time"),
        (None, DrillVerdict.NOT_AUDITED, "not audited: no auditor"),
    ],
)
def test_survived_requires_a_clean_audit(audit: AuditFigures | None, verdict: DrillVerdict, sentence: str) -> None:
    drill = until_well(judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True))
    drill = judging.conclude(drill, audit, no_audit="no auditor", now=at(30))
    assert drill.verdict is verdict
    assert drill.sentence.startswith(sentence)


def test_pipeline_without_recovery_has_not_survived_and_is_not_audited() -> None:
    drill = judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True)
    drill = until_well(drill, flows=False)
    assert drill.state is DrillState.RECOVERING
    drill = judging.advance(drill, now=at(16.5 + 30 + 91), run_is_live=True)
    assert (drill.state, drill.verdict) == (DrillState.ENDED, DrillVerdict.NOT_SURVIVED)
    assert drill.sentence.startswith("the pipeline did not recover")
    assert drill.no_audit


def test_pipeline_has_not_recovered_without_all_tasks() -> None:
    drill = judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True)
    for second in range(17, 27):
        seen = look(second, committed=(10 * second, 10 * second), generation=7, state="starting")
        drill = judging.advance(judging.see(drill, seen), now=at(second), run_is_live=True)
    assert drill.state is DrillState.RECOVERING


def test_unclaimed_order_expires() -> None:
    drill = judging.advance(a_drill(), now=at(15.0), run_is_live=True)
    assert drill.state is DrillState.ORDERED
    drill = judging.advance(drill, now=at(15.1), run_is_live=True)
    assert (drill.verdict, drill.sentence) == (DrillVerdict.NOT_BEGUN, "no target claimed it within 15 s")


def test_host_that_cannot_freeze_gives_the_reason() -> None:
    drill = hear(a_drill(), ActStep.REFUSED, 1.0, message="no pidfd here")
    drill = judging.advance(drill, now=at(1.5), run_is_live=True)
    assert (drill.verdict, drill.sentence) == (DrillVerdict.NOT_BEGUN, "no process was drilled: no pidfd here")


def test_granted_claim_without_a_report_is_not_survived() -> None:
    drill = hear(a_drill(), ActStep.CLAIMED, 1.0)
    drill = judging.advance(drill, now=at(1.0 + 15 + 5), run_is_live=True)
    assert drill.state is DrillState.UNDERWAY
    drill = judging.advance(drill, now=at(1.0 + 15 + 5.1), run_is_live=True)
    assert drill.verdict is DrillVerdict.NOT_BEGUN


def test_freeze_is_not_over_while_a_task_may_begin_or_is_frozen() -> None:
    drill = hear(hear(a_drill(tasks=2), ActStep.CLAIMED, 1.0), ActStep.FROZEN, 1.0)
    drill = hear(drill, ActStep.THAWED, 3.0)
    assert judging.advance(drill, now=at(4.0), run_is_live=True).state is DrillState.UNDERWAY
    drill = hear(hear(drill, ActStep.CLAIMED, 4.0, task=1), ActStep.FROZEN, 4.0, task=1)
    assert judging.advance(drill, now=at(16.0), run_is_live=True).state is DrillState.UNDERWAY
    drill = hear(drill, ActStep.THAWED, 19.0, task=1)
    assert judging.advance(drill, now=at(19.0), run_is_live=True).state is DrillState.RECOVERING


def test_stop_during_a_freeze_waits_for_the_thaw() -> None:
    drill = hear(hear(a_drill(), ActStep.CLAIMED, 1.0), ActStep.FROZEN, 1.0)
    drill = judging.stop(drill, by="anna", now=at(3.0))
    assert drill.state is DrillState.UNDERWAY
    assert not drill.may_begin(at(3.0))
    drill = judging.advance(hear(drill, ActStep.THAWED, 4.0), now=at(4.0), run_is_live=True)
    assert (drill.state, drill.verdict) == (DrillState.ENDED, DrillVerdict.STOPPED)
    assert drill.sentence.startswith("stopped by anna")


def test_ended_drill_does_not_wait_for_a_target_that_never_began() -> None:
    drill = hear(a_drill(tasks=2), ActStep.CLAIMED, 1.0)
    drill = hear(hear(drill, ActStep.FROZEN, 1.0), ActStep.THAWED, 3.0)
    drill = judging.stop(drill, by="anna", now=at(3.0))
    drill = judging.advance(drill, now=at(16.0), run_is_live=True)
    assert drill.verdict is DrillVerdict.STOPPED
    assert [(one.state, one.message) for one in drill.targets] == [
        (TargetState.THAWED, ""),
        (TargetState.REFUSED, "the drill ended before it began"),
    ]


def test_figures_without_observation_are_unknown() -> None:
    drill = judging.stop(a_drill(), by="anna", now=at(0.2))
    assert (drill.watched.at, drill.watched.rebalances, drill.watched.committed) == (None, None, None)
    seen = judging.see(a_drill(), look(1.0, committed=(10, 10)))
    assert (seen.watched.rebalances, seen.watched.committed) == (0, 0)
    seen = judging.see(judging.see(seen, look(1.5, committed=(15, 10))), look(2.0, committed=(20, 10), generation=7))
    assert (seen.watched.rebalances, seen.watched.committed) == (2, 10)


def test_rebalances_are_unknown_without_a_generation() -> None:
    silent = [replace(look(second), generation=None) for second in (0.0, 0.5)]
    drill = judging.see(judging.see(a_drill(), silent[0]), silent[1])
    assert drill.watched.rebalances is None
    assert judging.see(drill, look(1.0)).watched.rebalances == 0


def test_end_of_the_run_ends_the_drill() -> None:
    drill = judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True)
    drill = judging.advance(drill, now=at(17), run_is_live=False)
    assert drill.verdict is DrillVerdict.STOPPED


def test_partition_without_lag_has_no_recovery_time() -> None:
    drill = judging.see(a_drill(), look(0.0, committed=(10, 10)))
    for second in range(1, 30):
        seen = look(second, committed=(10, 10), committed_at=(0.0, 0.0))
        rest = {name: replace(one, at_end_at=at(second - 0.5)) for name, one in seen.partitions.items()}
        drill = judging.see(drill, replace(seen, partitions=rest))
    assert drill.watched.longest == ("in-0", 0.5)
    assert not any("has no commits" in sentence for sentence in sentences(drill))
    for second in range(30, 36):
        drill = judging.see(drill, look(second, committed=(10, 20 + second), committed_at=(0.0, second)))
    assert drill.watched.longest == ("in-0", 6.5), "from the newest time without lag"


def test_fencing_event_before_the_first_view_is_listed() -> None:
    fenced = FencingLook(id="f1", at=at(0.3), sentence="taken over by attempt 1")
    drill = judging.see(a_drill(), look(1.0, fencings=(fenced,)))
    drill = judging.see(drill, look(1.5, fencings=(fenced,)))
    assert [entry.fencing_id for entry in drill.entries if entry.fencing_id] == ["f1"]


def test_late_event_is_listed_at_its_time() -> None:
    drill = judging.see(frozen_and_thawed(), look(17.0, fencings=(FencingLook(id="f1", at=at(9.0), sentence="late"),)))
    times = [entry.at for entry in drill.entries]
    assert times == sorted(times)
    assert times.index(at(9.0)) < len(times) - 1


def test_recovery_time_with_a_time_without_observation_is_a_lower_bound() -> None:
    drill = judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True)
    drill = until_well(judging.see(drill, look(26.5, committed=(265, 265), generation=7, epoch="7:3")), begin=27.0)
    drill = judging.conclude(drill, CLEAN, no_audit="", now=at(60))
    assert "recovery time at least 7.5 s" in drill.sentence
    assert drill.sentence.endswith("10.0 s of it not observed)")


def test_server_drill_counts_commits_without_observation() -> None:
    drill = a_drill(DrillKind.FREEZE_SERVER, for_s=10.0)
    drill = judging.see(drill, look(0.0, committed=(10, 10)))
    drill = judging.see(drill, look(0.5, committed=(15, 15)))
    target = Target(host="s1", pid=1, since=at(3))
    drill = judging.hear(replace(drill, targets=(target,)), target, ActStep.CLAIMED, now=at(3))
    drill = judging.hear(drill, drill.targets[0], ActStep.FROZEN, now=at(3))
    drill = judging.hear(drill, drill.targets[0], ActStep.THAWED, now=at(13))
    drill = judging.see(drill, look(13.5, committed=(135, 135)))
    assert (drill.watched.unseen_s, drill.watched.committed_unseen) == (13.0, 240)
    assert drill.watched.longest == ("in-0", 0.5)
    drill = until_well(judging.advance(drill, now=at(13.5), run_is_live=True), begin=14.0)
    drill = judging.conclude(drill, CLEAN, no_audit="", now=at(30))
    assert drill.sentence.endswith("240 records were committed in 13.0 s without observation")


def test_partitions_without_commits_before_are_not_measured() -> None:
    drill = judging.see(a_drill(), look(0.0, committed_at=(-60.0, 0.0)))
    drill = judging.see(drill, look(1.0, committed=(0, 10), committed_at=(-60.0, 1.0)))
    assert drill.watched.longest == ("in-1", 1.0)


def test_long_timeline_keeps_its_start_and_its_end() -> None:
    drill = judging.see(a_drill(), look(0.0))
    for number in range(1, 500):
        drill = judging.see(drill, look(number / 10, generation=5 + number))
    assert len(drill.entries) == 401
    assert "generation 5 → 6" in drill.entries[0].sentence
    assert "more than 400 events" in drill.entries[-1].sentence
    drill = judging.stop(drill, by="anna", now=at(60))
    assert sentences(drill)[-2:] == ["anna stops the drill", "ended: stopped by anna"]


def test_transitions_follow_the_table_and_an_ended_drill_has_none() -> None:
    for state in DrillState:
        for to in DrillState:
            drill = replace(a_drill(), state=state)
            if to in TRANSITIONS[state]:
                assert drill.moved(to).state is to
            else:
                with pytest.raises(IllegalTransitionError, match=f"from {state} to {to}"):
                    drill.moved(to)
    assert not TRANSITIONS[DrillState.ENDED]


def test_idle_partition_without_broker_times_does_not_prevent_recovery() -> None:
    def without_times(seconds: float, committed: tuple[int, int]) -> DrillLook:
        seen = look(seconds, committed=committed)
        silent = {name: replace(one, committed_at=None) for name, one in seen.partitions.items()}
        return replace(seen, partitions=silent)

    drill = a_drill()
    for second in range(5):
        drill = judging.see(drill, without_times(second, (10 * second, 3)))
    assert set(drill.watched.measured) == {"in-0"}
    assert drill.watched.longest == ("in-0", 1.0)
