"""A process that freezes itself is thawed, even if its watchdogs are killed or frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence

import psutil
import pytest

from app.core.wire.drill import DRILL_PATH, DrillAnswer
from tests.support.waiting import wait_for
from tests.support.worker_listener import WorkerListener
from workers.drills.freezing import NoWatchdogError, Watchdog

_FREEZER = """
import sys
from workers.drills.freezing import Watchdog
urls = sys.argv[2:]
with Watchdog(for_s=float(sys.argv[1]), urls=urls, token="secret", report={"drill_id": "d1"}) as watchdog:
    print("stands", flush=True)
    sys.stdin.readline()
    try:
        watchdog.freeze()
    except Exception as error:
        print(f"failed {error}", flush=True)
    else:
        print("thawed", flush=True)
sys.stdin.readline()
"""
Start = Callable[..., "Frozen"]


def _no_pidfd(package: str, resource: str) -> bytes:
    return f"raise SystemExit('no pidfd here')  # in the place of {package}/{resource}".encode()


class Frozen:
    """A process that will freeze itself on request, and its watchdogs."""

    def __init__(self, for_s: float, urls: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _FREEZER, str(for_s), *urls],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "stands"
        self.first, self.second = sorted(psutil.Process(self.process.pid).children(recursive=True), key=lambda p: p.pid)
        self._known = psutil.Process(self.process.pid)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Tell it to, and wait until it is stopped."""
        self.tell()
        wait_for(self.is_stopped, 5, lambda: f"stopped, it is {self._known.status()}")

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def is_stopped(self) -> bool:
        return self._known.status() == psutil.STATUS_STOPPED

    def is_thawed_within(self, seconds: float) -> None:
        wait_for(lambda: not self.is_stopped(), seconds, lambda: f"thawed, it is {self._known.status()}")


@pytest.fixture
def start() -> Generator[Start]:
    started: list[Frozen] = []

    def make(for_s: float, *urls: str) -> Frozen:
        started.append(Frozen(for_s, urls))
        return started[-1]

    yield make
    for one in started:
        for process in (one.first, one.second):
            if process.is_running():
                process.kill()
        one.process.kill()
        one.process.wait()


def test_it_is_thawed_after_its_time_and_goes_on(start: Start) -> None:
    frozen = start(1.0)
    frozen.tell()
    begun = time.monotonic()
    assert frozen.line() == "thawed"
    assert 0.9 <= time.monotonic() - begun < 4


def test_it_is_thawed_at_once_when_the_first_one_is_killed(start: Start) -> None:
    frozen = start(60.0)
    frozen.go()
    frozen.first.kill()
    frozen.is_thawed_within(2)
    assert frozen.line().startswith("failed the watchdog ended with -9")


def test_it_is_thawed_at_once_when_the_second_one_is_killed(start: Start) -> None:
    frozen = start(60.0)
    frozen.go()
    frozen.second.kill()
    frozen.is_thawed_within(2)
    assert frozen.line() == "thawed"


def test_it_is_thawed_when_the_first_one_is_stopped(start: Start) -> None:
    frozen = start(1.0)
    frozen.go()
    frozen.first.suspend()
    frozen.is_thawed_within(1.0 + 3.0 + 3.0)


def test_it_is_not_frozen_when_the_second_one_is_gone_before(start: Start) -> None:
    frozen = start(60.0)
    frozen.second.kill()
    wait_for(lambda: frozen.second.status() == psutil.STATUS_ZOMBIE, 5, "the second one is dead")
    frozen.tell()
    assert frozen.line().startswith("failed")
    assert not frozen.is_stopped()


def test_the_parent_of_the_frozen_one_is_frozen_and_thawed_with_it() -> None:
    """As the JVM of a driver: spark-submit starts the Python process."""
    freezer = _FREEZER.replace('report={"drill_id": "d1"}', 'report={"drill_id": "d1"}, with_parent=True')
    outer = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {freezer!r}, '60.0'])\n"
    jvm = subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert jvm.stdin is not None
        assert jvm.stdout is not None
        assert jvm.stdout.readline() == "stands\n"
        (python,) = psutil.Process(jvm.pid).children()
        first = min(python.children(recursive=True), key=lambda one: one.pid)
        jvm.stdin.write("\n")
        jvm.stdin.flush()
        both = [psutil.Process(jvm.pid), python]

        def states() -> list[str]:
            return [one.status() for one in both]

        wait_for(lambda: states() == [psutil.STATUS_STOPPED] * 2, 5, lambda: f"both stopped, they are {states()}")
        first.kill()
        wait_for(lambda: psutil.STATUS_STOPPED not in states(), 2, lambda: f"both thawed, they are {states()}")
    finally:
        jvm.kill()
        jvm.wait()


def test_both_end_when_their_parent_is_killed_before_it_starts_them(start: Start) -> None:
    frozen = start(60.0)
    frozen.process.kill()
    gone, alive = psutil.wait_procs([frozen.first, frozen.second], timeout=5)
    assert not alive, gone


def test_both_go_when_the_frozen_one_is_killed(start: Start) -> None:
    frozen = start(60.0)
    frozen.go()
    os.kill(frozen.process.pid, signal.SIGKILL)
    gone, alive = psutil.wait_procs([frozen.first, frozen.second], timeout=5)
    assert not alive, gone


def test_the_server_ends_it_early(start: Start, worker_listener: WorkerListener) -> None:
    worker_listener.answer_with(DRILL_PATH, lambda said: DrillAnswer(goes_on=said["step"] != "frozen"))
    frozen = start(60.0, worker_listener.url)
    begun = time.monotonic()
    frozen.tell()
    assert frozen.line() == "thawed"
    assert time.monotonic() - begun < 5
    steps = [said["step"] for said in worker_listener.received[DRILL_PATH]]
    assert (steps[0], steps[-1]) == ("frozen", "thawed")
    assert all(said["drill_id"] == "d1" for said in worker_listener.received[DRILL_PATH])


def test_it_is_thawed_in_time_without_an_answer(start: Start) -> None:
    frozen = start(1.0, "http://127.0.0.1:9")
    frozen.go()
    frozen.is_thawed_within(3)


def test_signals_to_the_group_do_not_reach_the_watchdogs(start: Start) -> None:
    frozen = start(60.0)
    group = os.getpgid(frozen.process.pid)
    assert os.getpgid(frozen.first.pid) != group
    assert os.getpgid(frozen.second.pid) != group


def test_a_watchdog_that_cannot_start_is_reported_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.drills.freezing.pkgutil.get_data", _no_pidfd)
    with pytest.raises(NoWatchdogError, match="no pidfd here"):
        Watchdog(for_s=1.0, report={})
