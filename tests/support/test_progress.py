"""A run says how far it is, and how long it still takes by what tests took before."""

from typing import Any, cast

import pytest

from tests.support.progress import Progress

SECONDS = {"long": 60.0, "short": 20.0, "other": 40.0}


class Terminal:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.pluginmanager = self
        self.currentfspath = "tests/test_some.py"

    def get_plugin(self, _name: str) -> Any:
        return self

    def ensure_newline(self) -> None: ...

    def write_line(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


def done(name: str) -> pytest.TestReport:
    return pytest.TestReport(name, ("file", 1, name), {}, "passed", None, "teardown", duration=1.0)


def failed(name: str) -> pytest.TestReport:
    return pytest.TestReport(name, ("file", 1, name), {}, "failed", "assert 1 == 2", "call", duration=1.0)


def test_time_left_is_by_the_recorded_seconds_and_the_speed_of_this_machine(terminal: Terminal) -> None:
    progress = Progress(cast(pytest.Config, terminal), SECONDS)
    progress.pytest_xdist_node_collection_finished(list(SECONDS))
    progress.pytest_runtest_logreport(done("short"))
    # 20 s of 120 s expected took 10 s.
    assert progress.line(gone_s=10) == "1 of 3 tests, 0:10 gone, about 0:50 left"
    progress.pytest_runtest_logreport(done("other"))
    progress.pytest_runtest_logreport(done("long"))
    assert progress.line(gone_s=90) == "3 of 3 tests, 1:30 gone, about 0:00 left"


def test_a_line_is_written_every_half_minute(terminal: Terminal) -> None:
    now_s = 0.0
    progress = Progress(cast(pytest.Config, terminal), SECONDS, clock=lambda: now_s)
    progress.pytest_xdist_node_collection_finished(list(SECONDS))
    now_s = 29.0
    progress.pytest_runtest_logreport(done("short"))
    now_s = 31.0
    progress.pytest_runtest_logreport(done("other"))
    now_s = 40.0
    progress.pytest_runtest_logreport(done("long"))
    assert terminal.lines == ["2 of 3 tests, 0:31 gone, about 0:31 left"]


def test_a_failed_test_is_named_at_once_with_its_message(terminal: Terminal) -> None:
    progress = Progress(cast(pytest.Config, terminal), SECONDS, clock=lambda: 0.0)
    progress.pytest_xdist_node_collection_finished(list(SECONDS))
    progress.pytest_runtest_logreport(failed("short"))
    assert terminal.lines == ["FAILED short\nassert 1 == 2"]
