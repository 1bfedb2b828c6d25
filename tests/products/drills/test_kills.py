"""The confirmation and the end of a kill."""

from __future__ import annotations

from msgspec.structs import replace

from app.core.wire.drill import ActStep
from app.products.drills import judging
from app.products.drills.drill import Drill, DrillKind, DrillState, DrillVerdict, TargetState
from app.products.drills.timeline import FencingLook
from tests.products.drills.told import a_drill, at, hear, look, sentences


def test_kill_ends_with_its_claim_and_the_next_attempt_is_listed() -> None:
    drill = judging.see(a_drill(DrillKind.KILL_INSTANCE), look(0.0))
    drill = hear(drill, ActStep.CLAIMED, 1.0)
    assert drill.targets[0].state is TargetState.KILLED
    fenced = FencingLook(id="f1", at=at(3), sentence="taken over by attempt 1")
    drill = judging.see(drill, look(2.0, epoch="7:2", attempt=1, fencings=(fenced,)))
    drill = judging.see(drill, look(2.5, epoch="7:2", attempt=1, fencings=(fenced,)))
    assert judging.advance(drill, now=at(2.0), run_is_live=True).state is DrillState.RECOVERING
    told = sentences(drill)
    assert "task 0/0 begins attempt 1 (lease 1): running" in told
    assert [entry.fencing_id for entry in drill.entries if entry.fencing_id] == ["f1"]


def killed(*, commits_every_s: float = 0.1) -> Drill:
    """Return a drill whose kill was granted in second 1."""
    drill = a_drill(DrillKind.KILL_INSTANCE)
    drill = replace(drill, plan=replace(drill.plan, commits_every_s=commits_every_s))
    return hear(judging.see(drill, look(0.0)), ActStep.CLAIMED, 1.0)


def looked_at(drill: Drill, begin: float, end: float, *, attempt: int, state: str = "running") -> Drill:
    """Observe twice a second, with commits of both partitions."""
    for half in range(int(2 * begin), int(2 * end) + 1):
        second = half / 2
        seen = look(second, committed=(half, half), attempt=attempt, state=state)
        drill = judging.advance(judging.see(drill, seen), now=at(second), run_is_live=True)
    return drill


def test_target_with_heartbeats_after_a_granted_kill_was_not_killed() -> None:
    drill = looked_at(killed(), 1.5, 9.0, attempt=0)
    assert drill.state is DrillState.RECOVERING, "no recovery while the killed attempt is the newest"
    drill = looked_at(drill, 9.5, 9.5, attempt=0)
    assert drill.verdict is DrillVerdict.NOT_BEGUN
    assert drill.sentence == "no process was drilled: the kill was granted, but the process is alive"
    assert drill.targets[0].state is TargetState.REFUSED


def test_recovery_from_a_kill_requires_the_next_attempt() -> None:
    drill = looked_at(killed(), 1.5, 12.0, attempt=0, state="without heartbeats")
    assert drill.state is DrillState.RECOVERING
    drill = looked_at(drill, 12.5, 16.0, attempt=1)
    assert drill.state is DrillState.AUDITING
    assert drill.recovered_at == at(12.5)


def test_pipeline_with_a_long_commit_interval_recovers() -> None:
    drill = looked_at(killed(commits_every_s=5.0), 1.5, 2.0, attempt=1)
    for half in range(5, 20):
        seen = look(half / 2, committed=(4, 4), committed_at=(2.0, 2.0), attempt=1)
        drill = judging.advance(judging.see(drill, seen), now=at(half / 2), run_is_live=True)
    assert drill.state is DrillState.AUDITING
