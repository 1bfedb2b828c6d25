"""What a drill does on its way to the verdict, and what is seen of the pipeline meanwhile."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.audit_figures import AuditFigures
from app.core.wire.drill import ActStep
from app.kit.errors import IllegalTransitionError
from app.products.drills import judging
from app.products.drills.drill import TRANSITIONS, DrillKind, DrillState, DrillVerdict, Target, TargetState
from app.products.drills.timeline import FencingLook, Look
from tests.products.drills.told import CLEAN, a_drill, at, frozen_and_thawed, hear, look, sentences, until_well


def test_a_freeze_that_is_survived_is_told_from_its_beginning_to_its_end() -> None:
    drill = until_well(judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True))
    assert drill.state is DrillState.AUDITING
    assert drill.recovered_at == at(16.5)
    told = sentences(drill)
    for sentence in (
        "task 0 (process 40 on w1) is frozen (SIGSTOP)",
        "in-0 stands still since its offset 20 was committed",
        "the group rebalances: generation 5 → 6, now with 2 members",
        "in-0 flows again after 7.5 s",
        "task 0 (process 40 on w1) goes on (SIGCONT)",
        "fl.t.flights.0.0: producer:epoch 7:1 → 7:3",
        "all flows as before, 15.5 s after the beginning",
    ):
        assert sentence in told, told
    assert drill.watched.longest == ("in-0", 7.5)
    drill = judging.conclude(drill, CLEAN, no_audit="", now=at(30))
    assert (drill.state, drill.verdict) == (DrillState.ENDED, DrillVerdict.SURVIVED)
    assert drill.sentence == (
        "lost 0, duplicated 0 of 400 expected records; "
        "records stood still for at most 7.5 s (in-0, expected at most 18 s)"
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
        (replace(CLEAN, expected=0), DrillVerdict.NOT_AUDITED, "not audited: no output was due in its time"),
        (None, DrillVerdict.NOT_AUDITED, "not audited: nobody audits here"),
    ],
)
def test_only_a_clean_audit_makes_it_survived(audit: AuditFigures | None, verdict: DrillVerdict, sentence: str) -> None:
    drill = until_well(judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True))
    drill = judging.conclude(drill, audit, no_audit="nobody audits here", now=at(30))
    assert drill.verdict is verdict
    assert drill.sentence.startswith(sentence)


def test_what_does_not_flow_again_has_not_survived_and_keeps_no_other_drill_waiting() -> None:
    drill = judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True)
    drill = until_well(drill, flows=False)
    assert drill.state is DrillState.RECOVERING
    drill = judging.advance(drill, now=at(16.5 + 30 + 91), run_is_live=True)
    assert (drill.state, drill.verdict) == (DrillState.ENDED, DrillVerdict.NOT_SURVIVED)
    assert drill.sentence.startswith("the pipeline did not flow again")
    assert drill.no_audit


def test_a_task_that_is_not_back_is_not_well() -> None:
    drill = judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True)
    for second in range(17, 27):
        seen = look(second, committed=(10 * second, 10 * second), generation=7, state="starting")
        drill = judging.advance(judging.see(drill, seen), now=at(second), run_is_live=True)
    assert drill.state is DrillState.RECOVERING


def test_nobody_began_it_in_time() -> None:
    drill = judging.advance(a_drill(), now=at(15.0), run_is_live=True)
    assert drill.state is DrillState.ORDERED
    drill = judging.advance(drill, now=at(15.1), run_is_live=True)
    assert (drill.verdict, drill.sentence) == (DrillVerdict.NOT_BEGUN, "nobody began it within 15 s")


def test_a_host_that_cannot_freeze_says_why() -> None:
    drill = hear(a_drill(), ActStep.REFUSED, 1.0, message="no pidfd here")
    drill = judging.advance(drill, now=at(1.5), run_is_live=True)
    assert (drill.verdict, drill.sentence) == (DrillVerdict.NOT_BEGUN, "nobody was drilled: no pidfd here")


def test_granted_and_never_heard_of_again_is_not_said_to_be_survived() -> None:
    drill = hear(a_drill(), ActStep.CLAIMED, 1.0)
    drill = judging.advance(drill, now=at(1.0 + 15 + 5), run_is_live=True)
    assert drill.state is DrillState.UNDERWAY
    drill = judging.advance(drill, now=at(1.0 + 15 + 5.1), run_is_live=True)
    assert drill.verdict is DrillVerdict.NOT_BEGUN


def test_a_freeze_is_not_over_while_one_of_its_tasks_may_still_begin_or_is_frozen() -> None:
    drill = hear(hear(a_drill(tasks=2), ActStep.CLAIMED, 1.0), ActStep.FROZEN, 1.0)
    drill = hear(drill, ActStep.THAWED, 3.0)
    assert judging.advance(drill, now=at(4.0), run_is_live=True).state is DrillState.UNDERWAY
    drill = hear(hear(drill, ActStep.CLAIMED, 4.0, task=1), ActStep.FROZEN, 4.0, task=1)
    assert judging.advance(drill, now=at(16.0), run_is_live=True).state is DrillState.UNDERWAY
    drill = hear(drill, ActStep.THAWED, 19.0, task=1)
    assert judging.advance(drill, now=at(19.0), run_is_live=True).state is DrillState.RECOVERING


def test_a_stop_while_somebody_is_frozen_waits_for_the_thaw() -> None:
    drill = hear(hear(a_drill(), ActStep.CLAIMED, 1.0), ActStep.FROZEN, 1.0)
    drill = judging.stop(drill, by="anna", now=at(3.0))
    assert drill.state is DrillState.UNDERWAY
    assert not drill.may_begin(at(3.0))
    drill = judging.advance(hear(drill, ActStep.THAWED, 4.0), now=at(4.0), run_is_live=True)
    assert (drill.state, drill.verdict) == (DrillState.ENDED, DrillVerdict.STOPPED)
    assert drill.sentence.startswith("stopped by anna")


def test_a_process_that_never_began_is_not_waited_for_after_the_end() -> None:
    drill = hear(a_drill(tasks=2), ActStep.CLAIMED, 1.0)
    drill = hear(hear(drill, ActStep.FROZEN, 1.0), ActStep.THAWED, 3.0)
    drill = judging.stop(drill, by="anna", now=at(3.0))
    drill = judging.advance(drill, now=at(16.0), run_is_live=True)
    assert drill.verdict is DrillVerdict.STOPPED
    assert [(one.state, one.message) for one in drill.targets] == [
        (TargetState.THAWED, ""),
        (TargetState.REFUSED, "the drill ended before it began"),
    ]


def test_what_nobody_has_looked_at_is_not_said_to_be_none() -> None:
    drill = judging.stop(a_drill(), by="anna", now=at(0.2))
    assert (drill.watched.at, drill.watched.rebalances, drill.watched.committed) == (None, None, None)
    seen = judging.see(a_drill(), look(1.0, committed=(10, 10)))
    assert (seen.watched.rebalances, seen.watched.committed) == (0, 0)
    seen = judging.see(judging.see(seen, look(1.5, committed=(15, 10))), look(2.0, committed=(20, 10), generation=7))
    assert (seen.watched.rebalances, seen.watched.committed) == (2, 10)


def test_rebalances_are_not_known_while_nobody_tells_the_generation() -> None:
    silent = [replace(look(second), generation=None) for second in (0.0, 0.5)]
    drill = judging.see(judging.see(a_drill(), silent[0]), silent[1])
    assert drill.watched.rebalances is None
    assert judging.see(drill, look(1.0)).watched.rebalances == 0


def test_a_run_that_ends_meanwhile_ends_the_drill() -> None:
    drill = judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True)
    drill = judging.advance(drill, now=at(17), run_is_live=False)
    assert drill.verdict is DrillVerdict.STOPPED


def test_what_has_nothing_to_read_does_not_stand_still() -> None:
    drill = judging.see(a_drill(), look(0.0, committed=(10, 10)))
    for second in range(1, 30):
        seen = look(second, committed=(10, 10), committed_at=(0.0, 0.0))
        rest = {name: replace(one, at_end_at=at(second - 0.5)) for name, one in seen.partitions.items()}
        drill = judging.see(drill, replace(seen, partitions=rest))
    assert drill.watched.longest == ("in-0", 0.5)
    assert not any("stands still" in sentence for sentence in sentences(drill))
    for second in range(30, 36):
        drill = judging.see(drill, look(second, committed=(10, 20 + second), committed_at=(0.0, second)))
    assert drill.watched.longest == ("in-0", 6.5), "from the last word that there was nothing to read"


def test_what_was_fenced_before_the_first_look_is_told() -> None:
    fenced = FencingLook(id="f1", at=at(0.3), sentence="taken over by attempt 1")
    drill = judging.see(a_drill(), look(1.0, fencings=(fenced,)))
    drill = judging.see(drill, look(1.5, fencings=(fenced,)))
    assert [entry.fencing_id for entry in drill.entries if entry.fencing_id] == ["f1"]


def test_what_is_learnt_late_stands_where_it_happened() -> None:
    drill = judging.see(frozen_and_thawed(), look(17.0, fencings=(FencingLook(id="f1", at=at(9.0), sentence="late"),)))
    times = [entry.at for entry in drill.entries]
    assert times == sorted(times)
    assert times.index(at(9.0)) < len(times) - 1


def test_a_standstill_that_nobody_saw_whole_is_a_lower_bound() -> None:
    drill = judging.advance(frozen_and_thawed(), now=at(16.5), run_is_live=True)
    drill = until_well(judging.see(drill, look(26.5, committed=(265, 265), generation=7, epoch="7:3")), begin=27.0)
    drill = judging.conclude(drill, CLEAN, no_audit="", now=at(60))
    assert "stood still for at least 7.5 s" in drill.sentence
    assert drill.sentence.endswith("nobody looked for 10.0 s of it)")


def test_a_server_that_was_away_does_not_call_it_a_standstill() -> None:
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
    assert drill.sentence.endswith("240 records were committed in the 13.0 s that nobody looked")


def test_partitions_that_did_not_flow_before_are_not_measured() -> None:
    drill = judging.see(a_drill(), look(0.0, committed_at=(-60.0, 0.0)))
    drill = judging.see(drill, look(1.0, committed=(0, 10), committed_at=(-60.0, 1.0)))
    assert drill.watched.longest == ("in-1", 1.0)


def test_a_line_that_grows_without_end_keeps_its_beginning_and_its_end() -> None:
    drill = judging.see(a_drill(), look(0.0))
    for number in range(1, 500):
        drill = judging.see(drill, look(number / 10, generation=5 + number))
    assert len(drill.entries) == 401
    assert "generation 5 → 6" in drill.entries[0].sentence
    assert "more than 400 lines" in drill.entries[-1].sentence
    drill = judging.stop(drill, by="anna", now=at(60))
    assert sentences(drill)[-2:] == ["anna stops the drill", "ended: stopped by anna"]


def test_every_state_is_left_as_the_table_says_and_an_ended_one_never() -> None:
    for state in DrillState:
        for to in DrillState:
            drill = replace(a_drill(), state=state)
            if to in TRANSITIONS[state]:
                assert drill.moved(to).state is to
            else:
                with pytest.raises(IllegalTransitionError, match=f"from {state} to {to}"):
                    drill.moved(to)
    assert not TRANSITIONS[DrillState.ENDED]


def test_without_the_brokers_word_an_idle_partition_does_not_keep_it_from_being_well() -> None:
    def without_times(seconds: float, committed: tuple[int, int]) -> Look:
        seen = look(seconds, committed=committed)
        silent = {name: replace(one, committed_at=None) for name, one in seen.partitions.items()}
        return replace(seen, partitions=silent)

    drill = a_drill()
    for second in range(5):
        drill = judging.see(drill, without_times(second, (10 * second, 3)))
    assert set(drill.watched.measured) == {"in-0"}
    assert drill.watched.longest == ("in-0", 1.0)
