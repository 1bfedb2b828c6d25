"""The result of a run of the suite, as JSON: the tests, the machine, and the end."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

_SLOWEST = 10
_LONG_S = 0.2
SECONDS = "seconds.json"
"""Beside the results: how long tests took when they were last run, by id, unless they took next to no time."""


class Finished(msgspec.Struct, frozen=True):
    """The end of one test: a line of the journal. `outcome` is passed, failed or skipped.

    gone_s: how long the run had taken then.
    """

    test: str
    outcome: str
    seconds: float
    gone_s: float


def write_at_end(config: pytest.Config, file: Path) -> None:
    """Write the results of the run into `file`; of several processes (`-n`) the first writes those of all."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(config, file))


def journal_of(file: Path) -> Path:
    """The tests that a run has finished, while it runs: its first line is the commit."""
    return file.with_suffix(".journal")


def finished_tests(file: Path) -> dict[str, Finished]:
    """Return by id the tests that an interrupted run of this tree finished. Raises a UsageError if there is none.

    A failed test stays failed: only a run from the beginning can pass it.
    """
    journal = journal_of(file)
    lines = journal.read_bytes().splitlines() if journal.exists() else []
    if not lines:
        raise pytest.UsageError(f"there is no interrupted run to continue: {journal} does not exist")
    if is_changed_since_commit(lines[0].decode()):
        raise pytest.UsageError("the interrupted run had another tree: begin again without --continue")
    # The last line of a killed run may be incomplete.
    whole = lines[1:] if journal.read_bytes().endswith(b"\n") else lines[1:-1]
    return {one.test: one for one in (msgspec.json.decode(line, type=Finished) for line in whole)}


class Results:
    """A pytest plugin that writes `file` when the run is over, however it ends."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self._config = config
        self._file = file
        self._began = time.monotonic()
        self._passed: set[str] = set()
        self._failed: set[str] = set()
        self._skipped: set[str] = set()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._not_run = 0
        self._journal = journal_of(file)

    def pytest_sessionstart(self) -> None:
        if not self._config.getoption("--continue"):
            self._journal.parent.mkdir(parents=True, exist_ok=True)
            self._journal.write_text(git("rev-parse", "HEAD") + "\n")
            return
        finished = finished_tests(self._file)
        for one in finished.values():
            self._seconds[one.test] = one.seconds
            {"passed": self._passed, "failed": self._failed, "skipped": self._skipped}[one.outcome].add(one.test)
        self._began -= max((one.gone_s for one in finished.values()), default=0.0)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._not_run += len(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test fails once, whether by itself or in what is made for it."""
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.skipped:
            self._skipped.add(report.nodeid)
        elif report.when == "call":
            self._passed.add(report.nodeid)
        if report.when == "teardown":
            with self._journal.open("ab") as journal:
                journal.write(msgspec.json.encode(self._finished(report.nodeid)) + b"\n")

    def _finished(self, test: str) -> Finished:
        is_failed, is_skipped = test in self._failed, test in self._skipped
        outcome = "failed" if is_failed else "skipped" if is_skipped else "passed"
        return Finished(test, outcome, round(self._seconds[test], 2), round(time.monotonic() - self._began, 1))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
            return  # --continue runs the rest
        if self._failed and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = exitstatus = pytest.ExitCode.TESTS_FAILED
        self._journal.unlink(missing_ok=True)
        slowest = sorted(self._seconds, key=self._seconds.__getitem__, reverse=True)
        found = {
            "commit": git("rev-parse", "HEAD"),
            "changed_since_commit": is_changed_since_commit(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "exit_code": int(exitstatus),
            "passed": len(self._passed - self._failed),
            "failed": len(self._failed),
            "skipped": len(self._skipped),
            "not_run": self._not_run,
            "failures": sorted(self._failed),
            "seconds": round(time.monotonic() - self._began),
            "seed": self._config.getoption("--seed"),
            "arguments": list(self._config.invocation_params.args),
            "python": platform.python_version(),
            "machine": {"cpus": os.cpu_count(), "system": platform.system(), "architecture": platform.machine()},
            "slowest_s": {name: round(self._seconds[name], 1) for name in slowest[:_SLOWEST]},
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(found, indent=2) + "\n")
        self._keep_seconds(self._file.with_name(SECONDS))

    def _keep_seconds(self, file: Path) -> None:
        """Tests that were not run keep their earlier seconds; a whole run forgets tests that do not exist any more."""
        before = timed_tests(file) if self._not_run else {}
        now = {name: round(seconds, 1) for name, seconds in self._seconds.items() if seconds >= _LONG_S}
        kept = {name: seconds for name, seconds in before.items() if name not in self._seconds}
        file.write_text(json.dumps(dict(sorted((kept | now).items())), indent=0) + "\n")


def timed_tests(file: Path) -> dict[str, float]:
    """How many seconds each test took when it was last run, if that was 0.2 s or more; empty without the file."""
    return json.loads(file.read_text()) if file.exists() else {}


def is_changed_since_commit(commit: str = "HEAD") -> bool:
    """True if files that are run differ from `commit`. Results are not run, nor are pages made of them."""
    elsewhere = (":(top)", ":(top,exclude)tests/results", ":(top,exclude)bench/results", ":(top,exclude)docs/measured")
    return bool(git("diff", "--name-only", commit, "--", *elsewhere))


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()
