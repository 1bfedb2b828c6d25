"""The file that a run leaves behind says what passed, what failed and what was not run."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from tests.support.results import SECONDS, Results, timed_tests

pytest_plugins = ["pytester"]

CONFIG: Any = SimpleNamespace(getoption={"--seed": 7}.get, invocation_params=SimpleNamespace(args=[]))
ITEM: Any = object()

CONFTEST = """
from pathlib import Path
from tests.support.results import write_at_end

def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=7)

def pytest_configure(config):
    write_at_end(config, Path("results/all.json"))
"""


def test_a_run_has_the_passed_and_the_failed_tests(pytester: pytest.Pytester) -> None:
    pytester.run("git", "init", "--quiet")
    pytester.run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "one")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def broken():
            yield
            raise OSError("on the way out")

        def test_good(): pass
        def test_bad(): assert False
        def test_good_until_its_end(broken): pass
        def test_left_out(): pass
        @pytest.mark.skip
        def test_skipped(): pass
        """
    )
    pytester.runpytest_subprocess("-k", "not left_out")
    found = json.loads((pytester.path / "results" / "all.json").read_text())
    assert {name: found[name] for name in ("passed", "failed", "skipped", "not_run", "exit_code", "seed")} == {
        "passed": 1,
        "failed": 2,
        "skipped": 1,
        "not_run": 1,
        "exit_code": 1,
        "seed": 7,
    }
    assert [name.rpartition("::")[2] for name in found["failures"]] == ["test_bad", "test_good_until_its_end"]
    assert len(found["commit"]) == 40


def test_of_several_processes_one_writes_the_tests_of_all(pytester: pytest.Pytester) -> None:
    pytester.run("git", "init", "--quiet")
    pytester.run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "one")
    pytester.makeconftest(CONFTEST)
    for name in ("one", "two"):
        pytester.makepyfile(**{f"test_{name}": "def test_good(): pass\ndef test_bad(): assert False\n"})
    pytester.runpytest_subprocess("--numprocesses", "2", "--dist", "loadfile")
    found = json.loads((pytester.path / "results" / "all.json").read_text())
    assert {name: found[name] for name in ("passed", "failed", "exit_code")} == {
        "passed": 2,
        "failed": 2,
        "exit_code": 1,
    }
    assert found["failures"] == ["test_one.py::test_bad", "test_two.py::test_bad"]


def test_how_timed_tests_took_is_kept_until_they_are_run_again(tmp_path: Path) -> None:
    file = tmp_path / SECONDS
    file.write_text('{"quick now": 9.0, "left out": 8.0, "gone": 7.0}')

    def run(*, left_out: int) -> None:
        results = Results(CONFIG, tmp_path / "all.json")
        results.pytest_deselected([ITEM] * left_out)
        phases: list[tuple[str, Literal["setup", "call"], float]]
        phases = [("long", "setup", 1.5), ("long", "call", 2.0), ("quick now", "call", 0.1)]
        for name, when, seconds in phases:
            results.pytest_runtest_logreport(
                pytest.TestReport(name, ("file", 1, name), {}, "passed", None, when, duration=seconds)
            )
        results.pytest_sessionfinish(0)

    run(left_out=1)
    assert timed_tests(file) == {"long": 3.5, "left out": 8.0, "gone": 7.0}
    run(left_out=0)
    assert timed_tests(file) == {"long": 3.5}
