"""The demo must not end well when flights were never read, or when its run failed."""

import threading
from collections.abc import Generator

import pytest

from app.core.runs.run import RunState
from app.edges.embedded.errors import EmbeddedError
from app.products.demo.ending import complaints, wait_until_read
from app.products.demo.live import stay
from app.products.demo.proof import SinkVerdict
from app.products.demo.server import DemoRun

RUNNING = DemoRun("r", RunState.RUNNING)
STOPPED = DemoRun("r", RunState.STOPPED)
FAILED = DemoRun("r", RunState.FAILED, "instance 0 gave up")


def verdict(*, fed: int = 10, read: int = 10, lost: int = 0) -> SinkVerdict:
    return SinkVerdict(fed=fed, records_in=read, expected=4, found=4 - lost, lost=lost, duplicated=0)


@pytest.fixture
def feeding() -> Generator[threading.Thread]:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, daemon=True)
    thread.start()
    yield thread
    stop.set()
    thread.join(10)


def test_all_read_and_stopped_is_no_reason_to_complain() -> None:
    assert complaints(verdict(), before=RUNNING, after=STOPPED) == ()


@pytest.mark.parametrize("read", [9, 11])
def test_other_than_fed_is_complained_of_though_the_proof_holds(read: int) -> None:
    seen = verdict(read=read)
    assert seen.is_exactly_once
    (said,) = complaints(seen, before=RUNNING, after=STOPPED)
    assert said == f"10 flights were fed, but {read} were read (the run was running before the drain)"


def test_a_failed_run_is_complained_of_though_all_was_read() -> None:
    assert complaints(verdict(), before=RUNNING, after=FAILED) == ("the run has failed: instance 0 gave up",)


@pytest.mark.parametrize("state", [RunState.PAUSED, RunState.DRAINING, RunState.STOPPED])
def test_a_run_that_people_may_stop_need_not_have_read_all(state: RunState) -> None:
    stopped_early = DemoRun("r", state)
    assert complaints(verdict(read=9), before=stopped_early, after=STOPPED)
    assert complaints(verdict(read=9), before=stopped_early, after=STOPPED, may_end_early=True) == ()


@pytest.mark.parametrize("state", [RunState.STARTING, RunState.RUNNING, RunState.DEGRADED])
def test_a_run_that_was_not_stopped_must_have_read_all(state: RunState) -> None:
    (said,) = complaints(verdict(read=9), before=DemoRun("r", state), after=STOPPED, may_end_early=True)
    assert said.startswith("10 flights were fed, but 9 were read")


def test_a_run_stopped_early_must_not_have_lost_its_input() -> None:
    (said,) = complaints(verdict(read=9, lost=1), before=STOPPED, after=STOPPED, may_end_early=True)
    assert "lost 1" in said


def test_a_lost_flight_is_complained_of() -> None:
    (said,) = complaints(verdict(lost=1), before=RUNNING, after=STOPPED)
    assert "lost 1" in said


def test_waits_until_the_last_flight_is_read() -> None:
    counts = iter([8, 9, 10])
    wait_until_read(10, count_read=lambda: next(counts), get_run=lambda: RUNNING, within_s=60)
    assert next(counts, None) is None


def test_the_wait_is_bounded() -> None:
    looks: list[int] = []

    def count_read() -> int:
        looks.append(1)
        return 9

    wait_until_read(10, count_read=count_read, get_run=lambda: RUNNING, within_s=0.3)
    assert len(looks) > 1


@pytest.mark.parametrize("ended", [STOPPED, FAILED], ids=["stopped", "failed"])
def test_an_ended_run_is_not_waited_for(ended: DemoRun) -> None:
    counts = iter([9])
    wait_until_read(10, count_read=lambda: next(counts), get_run=lambda: ended, within_s=60)


def test_staying_ends_when_the_run_fails(feeding: threading.Thread) -> None:
    states = iter([RUNNING, FAILED])
    with pytest.raises(EmbeddedError, match="the run has failed: instance 0 gave up"):
        stay(get_run=lambda: next(states), prove=list, feeding=feeding)


def test_the_demo_stays_when_a_user_stops_the_run(feeding: threading.Thread) -> None:
    def prove() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stay(get_run=lambda: STOPPED, prove=prove, feeding=feeding, prove_every_s=0.5)
