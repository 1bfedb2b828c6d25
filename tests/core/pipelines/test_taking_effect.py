"""When a change takes effect: by a rolling bounce, at a full restart, at the next start, or by a new checkpoint."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from app.core.pipelines.taking_effect import pending_changes
from tests.support.control_plane import definition
from tests.support.queries import QUERY

BEFORE = definition(instances=2)


def effects(*, is_running: bool = True, **changed: Any) -> dict[str, str]:
    after = replace(BEFORE, **changed)
    return {
        one.change.field: one.takes_effect for one in pending_changes(BEFORE, BEFORE if is_running else None, after)
    }


def test_change_of_a_running_pipeline_rolls_or_needs_a_full_restart() -> None:
    assert effects(commit_interval_ms=200) == {
        "commit_interval_ms": "Without a pause: instances restart one at a time after saving."
    }
    assert "full restart" in effects(instances=1)["instances"]
    assert "Without a pause" in effects(instances=3)["instances"]
    assert "new group begins without offsets" in effects(group_id="other")["group_id"]
    assert effects(cluster="other")["cluster"] == "Refused while a run lives: drain it first."


def test_change_beside_one_that_needs_a_full_restart_waits_for_it() -> None:
    found = effects(commit_interval_ms=200, offset_fencing="group_only", processing_guarantee="exactly_once")
    assert found["commit_interval_ms"] == "At the full restart that another field needs."


def test_change_of_a_stopped_pipeline_takes_effect_at_the_next_start() -> None:
    assert set(effects(is_running=False, group_id="other", commit_interval_ms=200).values()) == {"At the next start."}


def test_change_that_the_state_of_a_query_does_not_survive_needs_a_new_checkpoint() -> None:
    before = definition(transform=QUERY)
    after = replace(before, sink_topic="elsewhere")
    (found,) = pending_changes(before, before, after)
    assert found.takes_effect == "Needs a new checkpoint at the next start."
