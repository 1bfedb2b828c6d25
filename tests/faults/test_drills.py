"""Drills of a pipeline on real Spark under a real server: done, seen, and nothing left frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import psutil
import pytest

from tests.support.running_pipeline import RunningPipeline
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

SESSION_S = 6.0
FREEZE_S = 9.0


@pytest.fixture(scope="module")
def more_fields() -> Mapping[str, Any]:
    return {"allows_drills": True, "session_timeout_ms": int(SESSION_S * 1000)}


def order(running: RunningPipeline, kind: str, **fields: Any) -> str:
    return str(running.server.post(f"/pipelines/{running.name}/drills", {"kind": kind, **fields})["id"])


def until(running: RunningPipeline, drill_id: str, state: str, deadline_s: float) -> dict[str, Any]:
    """The drill as soon as it is in this state. A server that was taken away does not answer in time, and then does."""
    seen: dict[str, Any] = {}

    def is_there() -> bool:
        try:
            seen.update(running.server.get(f"/drills/{drill_id}"))
        except httpx.HTTPError:
            return False
        return seen["state"] == state

    wait_for(is_there, deadline_s, lambda: f"the drill to be {state}; it is {seen.get('state')}: {told(seen)}")
    return seen


def told(drill: dict[str, Any]) -> list[str]:
    return [entry["sentence"] for entry in drill.get("entries", ())]


def is_stopped(drill: dict[str, Any]) -> bool:
    (target,) = drill["targets"]
    return psutil.Process(target["pid"]).status() == psutil.STATUS_STOPPED


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("kind", ["freeze_instance", "kill_instance", "freeze_server"])
def test_a_drill_is_done_and_reported_and_nothing_is_lost(running: RunningPipeline, kind: str) -> None:
    ordinal = None if kind == "freeze_server" else 0
    drill_id = order(running, kind, ordinal=ordinal, for_s=FREEZE_S)
    drill = until(running, drill_id, "ended", 120)
    sentences = told(drill)
    assert drill["verdict"] == "not_audited", (drill["sentence"], sentences)
    assert drill["recovered_at"] is not None
    (target,) = drill["targets"]
    if kind == "kill_instance":
        assert not psutil.pid_exists(target["pid"]), "it was killed"
        assert any("begins attempt" in sentence for sentence in sentences), sentences
    else:
        assert not is_stopped(drill)
        assert any("is thawed (SIGCONT)" in sentence for sentence in sentences), sentences
    if kind == "freeze_server":
        assert drill["watched"]["unseen_s"] >= FREEZE_S - 1
        assert drill["watched"]["committed_unseen"] > 0, sentences
    else:
        assert drill["watched"]["rebalances"] >= 1, sentences
        longest_s = max(one["longest_s"] for one in drill["watched"]["partitions"].values())
        assert longest_s > SESSION_S - 2, (longest_s, sentences)
    running.assert_nothing_lost_nothing_double()


def test_a_freeze_that_is_stopped_is_thawed_at_once(running: RunningPipeline) -> None:
    drill_id = order(running, "freeze_instance", ordinal=1, for_s=100.0)
    drill = until(running, drill_id, "underway", 20)
    wait_for(lambda: is_stopped(drill), 10, "the worker to be frozen")
    running.server.post(f"/drills/{drill_id}/stop")
    drill = until(running, drill_id, "ended", 15)
    assert not is_stopped(drill)
    assert drill["verdict"] == "stopped"
    running.assert_nothing_lost_nothing_double()
