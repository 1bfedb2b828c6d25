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
SESSION: Any = SimpleNamespace()

CONFTEST = """
from pathlib import Path
from tests.support.results import finished_tests, write_at_end

def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=7)
    parser.addoption("--continue", action="store_true")

def pytest_collection_modifyitems(config, items):
    if config.getoption("--continue"):
        finished = finished_tests(Path("results/all.json"))
        items[:] = [item for item in items if item.nodeid not in finished]

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


def test_an_interrupted_run_is_continued_on_the_same_tree_alone(pytester: pytest.Pytester) -> None:
    """The process is killed in the third test: what has failed before stays failed, and nothing is run twice."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        """
        import os
        from pathlib import Path

        def ran(name):
            with Path("ran").open("a") as file:
                file.write(name)

        def test_1(): ran("1")
        def test_2(): ran("2"); assert False
        def test_3(): ran("3"); os.environ.get("KILL") and os.kill(os.getpid(), 9)
        def test_4(): ran("4")
        """
    )
    pytester.run("git", "init", "--quiet")
    pytester.run("git", "add", "conftest.py")
    commit = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "one")
    pytester.run(*commit)
    options = ("--numprocesses", "1", "--max-worker-restart", "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KILL", "1")
        pytester.runpytest_subprocess("-p", "no:xdist")
    assert not (pytester.path / "results" / "all.json").exists()
    pytester.run(*commit)  # of the same files: the results so far, for example
    ended = pytester.runpytest_subprocess("--continue", *options)
    found = json.loads((pytester.path / "results" / "all.json").read_text())
    assert (pytester.path / "ran").read_text() == "12334"
    assert {name: found[name] for name in ("passed", "failed", "not_run", "exit_code")} == {
        "passed": 3,
        "failed": 1,
        "not_run": 0,
        "exit_code": 1,
    }
    assert ended.ret == 1

    assert "no interrupted run" in "\n".join(pytester.runpytest_subprocess("--continue").errlines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KILL", "1")
        pytester.runpytest_subprocess("-p", "no:xdist")
    (pytester.path / "conftest.py").write_text(f"{CONFTEST}\nCHANGED = True\n")
    assert "another tree" in "\n".join(pytester.runpytest_subprocess("--continue").errlines)


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
        results.pytest_sessionfinish(SESSION, 0)

    run(left_out=1)
    assert timed_tests(file) == {"long": 3.5, "left out": 8.0, "gone": 7.0}
    run(left_out=0)
    assert timed_tests(file) == {"long": 3.5}
