"""How far a run of the suite is, about how long it still takes, and what has failed so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

_EVERY_S = 30.0
_UNTIMED_S = 0.03
_MESSAGE_CHARS = 2_000


class Progress:
    """A pytest plugin that writes a line every half minute. `seconds`: how long tests took when last timed, by id."""

    def __init__(
        self, config: pytest.Config, seconds: Mapping[str, float], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._seconds = seconds
        self._clock = clock
        self._began = self._wrote = clock()
        self._work_s = self._done_s = 0.0
        self._count = self._done = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._begin({item.nodeid for item in session.items})

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Collection[str]) -> None:
        """Each of several processes has collected the same tests."""
        self._begin(ids)

    def _begin(self, ids: Collection[str]) -> None:
        self._began = self._clock()
        self._count, self._work_s = len(ids), sum(map(self._expected_s, ids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            # pytest describes it at the end of the run: two hours later, or never where the run is killed.
            self._write(f"FAILED {report.nodeid}\n{_message_of(report)}")
        if report.when != "teardown":
            return
        self._done += 1
        self._done_s += self._expected_s(report.nodeid)
        if self._clock() - self._wrote >= _EVERY_S:
            self._wrote = self._clock()
            self._write(self.line(gone_s=self._wrote - self._began))

    def _write(self, line: str) -> None:
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            # With several processes it is unknown whether a line of dots is open.
            terminal.write_line("") if terminal.currentfspath is None else terminal.ensure_newline()
            terminal.write_line(line)

    def line(self, *, gone_s: float) -> str:
        """The done and the remaining tests. Each expected second of the rest takes as long as one of the done ones."""
        left_s = gone_s * (self._work_s - self._done_s) / self._done_s if self._done_s else 0.0
        return f"{self._done:,} of {self._count:,} tests, {_minutes(gone_s)} gone, about {_minutes(left_s)} left"

    def _expected_s(self, test_id: str) -> float:
        return self._seconds.get(test_id, _UNTIMED_S)


def _message_of(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr)[:_MESSAGE_CHARS]


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
