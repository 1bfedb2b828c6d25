"""The file that a run leaves behind says what passed, what failed and what was not run."""

import json

import pytest

pytest_plugins = ["pytester"]


def test_a_run_says_what_passed_and_what_did_not(pytester: pytest.Pytester) -> None:
    pytester.run("git", "init", "--quiet")
    pytester.run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "one")
    pytester.makeconftest(
        """
        from pathlib import Path
        from tests.support.results import Results

        def pytest_addoption(parser):
            parser.addoption("--seed", type=int, default=7)

        def pytest_configure(config):
            config.pluginmanager.register(Results(config, Path("results/all.json")))
        """
    )
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
