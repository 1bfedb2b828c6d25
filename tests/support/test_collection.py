"""The seed decides which tests a run draws, and the quick tests come first."""

import hashlib
import random
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.collection import Suite, over_budget

TESTS = """
import pytest

@pytest.mark.browser
def test_page(): ...

def test_on_spark(spark_cluster): ...

@pytest.mark.faults(keep=2)
@pytest.mark.parametrize("n", range(10))
def test_sampled(kafka, n): ...

@pytest.mark.faults(keep=1, of="pool")
def test_pool_one(kafka): ...

@pytest.mark.faults(keep=1, of="pool")
def test_pool_two(kafka): ...

@pytest.mark.faults
@pytest.mark.parametrize("n", range(3))
def test_whole(kafka, n): ...

def test_on_broker(make_topic): ...

@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("policy", ["skip", "fail"])
def test_variants(kafka, policy, protocol): ...

@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_pure_variants(protocol): ...

@pytest.mark.core
@pytest.mark.parametrize("n", range(4))
def test_promise(kafka, n): ...

def test_on_database(make_database): ...

def test_pure(): ...
"""


class _Keeper:
    """A plugin that keeps the names of the tests in the order in which they would run, and their outcomes."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.outcomes: Counter[str] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.names += [item.name for item in session.items]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.skipped:
            self.outcomes[report.outcome] += 1


@pytest.fixture(autouse=True)
def _without_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - a fixture
    """Plugins that are installed have no say in the runs inside these tests."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def collected(folder: Path, *arguments: str) -> list[str]:
    """Names of the tests in the order in which a run with these arguments would run them."""
    keeper = _Keeper()
    code = run_inside(folder, TESTS, keeper, "--collect-only", *arguments)
    assert code == pytest.ExitCode.OK, arguments
    return keeper.names


def run_inside(folder: Path, tests: str, keeper: _Keeper, *arguments: str) -> int:
    """Run pytest in this process: a new one would import the whole product, for seconds."""
    (folder / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    # A module is imported once for each name.
    (folder / f"test_{hashlib.sha256(tests.encode()).hexdigest()[:8]}.py").write_text(tests, encoding="utf-8")
    ini = folder / "pytest.ini"
    ini.write_text("[pytest]\nmarkers =\n  browser\n  faults\n  core\n", encoding="utf-8")
    own = ("-q", "-c", str(ini), "--rootdir", str(folder), "--import-mode=importlib", "-p", "no:cacheprovider")
    # It would collect the garbage of the whole suite.
    return pytest.main([*own, "-p", "no:unraisableexception", *arguments, str(folder)], plugins=[keeper])


def test_quick_kinds_of_tests_come_first(tmp_path: Path) -> None:
    names = [re.sub(r"\[.*|_(one|two)$", "", name) for name in collected(tmp_path, "--seed", "1")]
    assert list(dict.fromkeys(names)) == [
        "test_pure_variants",
        "test_pure",
        "test_on_database",
        "test_on_broker",
        "test_variants",
        "test_promise",
        "test_sampled",
        "test_pool",
        "test_whole",
        "test_on_spark",
        "test_page",
    ]


def test_seed_decides_the_draw(tmp_path: Path) -> None:
    draws = {seed: collected(tmp_path, "--seed", str(seed)) for seed in (1, 2)}
    for names in draws.values():
        assert sum(name.startswith("test_sampled") for name in names) == 2
        assert sum(name.startswith("test_whole") for name in names) == 3
        assert sum(name.startswith("test_pool") for name in names) == 1
        variants = [name for name in names if name.startswith("test_variants")]
        assert sorted(name.partition("[")[2].split("-")[0] for name in variants) == ["fail", "skip"]
        assert sum(name.startswith("test_pure_variants") for name in names) == 2
    assert collected(tmp_path, "--seed", "1") == draws[1]
    assert draws[1] != draws[2]


def test_tests_are_drawn_until_the_time_is_spent() -> None:
    def item(file: str, name: str, *markers: str) -> Any:
        return SimpleNamespace(
            nodeid=f"{file}::{name}",
            path=Path(file) / "test_some.py",
            get_closest_marker=dict.fromkeys(markers, True).get,
        )

    always, long = item("a", "always", "always"), item("long", "alone")
    timed = [item("a", f"timed-{n}") for n in range(10)] + [item("b", "alone")]
    new = [item("a", f"new-{n}") for n in range(100)]
    seconds = {one.nodeid: 10.0 for one in (always, *timed)} | {long.nodeid: 600.0}
    for seed in range(20):
        dropped = over_budget([always, long, *new, *timed], random.Random(seed), seconds=seconds, budget_s=58)
        kept = [one for one in (always, *new, *timed) if one not in dropped]
        assert 48 < sum(seconds.get(one.nodeid, 1.0) for one in kept) <= 58
        assert "b::alone" in [one.nodeid for one in kept]
        assert always not in dropped
        assert long in dropped
    draws = {
        tuple(one.nodeid for one in over_budget(timed, random.Random(seed), seconds=seconds, budget_s=45))
        for seed in (1, 1, 2)
    }
    assert len(draws) == 2


def test_after_its_minutes_a_run_begins_no_test_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = "import time\n\n\ndef test_first(): time.sleep(1)\ndef test_second(): assert False\n"
    for minutes, outcomes in (("0.01", {"passed": 1, "skipped": 1}), ("1", {"passed": 1, "failed": 1})):
        keeper = _Keeper()
        run_inside(tmp_path, tests, keeper, "-rs", "--minutes", minutes)
        assert keeper.outcomes == outcomes
    assert "not begun: 0.01 minutes were over" in capsys.readouterr().out


def test_each_test_is_in_one_suite_and_a_heavy_one_in_none_that_runs_beside_others(tmp_path: Path) -> None:
    whole = sorted(collected(tmp_path, "--all", "--seed", "1"))
    quick, core, more = (collected(tmp_path, "--all", "--seed", "1", "--suite", suite) for suite in Suite)
    assert {name.partition("[")[0] for name in quick} == {"test_pure_variants", "test_pure", "test_on_database"}
    assert sorted(quick + core + more) == whole
    assert [name.partition("[")[0] for name in core] == ["test_promise"], "one of its four cases"
    draws = {tuple(collected(tmp_path, "--seed", str(seed), "--suite", "core")) for seed in range(5)}
    assert len(draws) > 1


def test_all_samples_nothing(tmp_path: Path) -> None:
    names = collected(tmp_path, "--all", "--seed", "1")
    assert sum(name.startswith("test_sampled") for name in names) == 10
    assert sum(name.startswith("test_variants") for name in names) == 4
    assert sum(name.startswith("test_pool") for name in names) == 2


@pytest.mark.parametrize("cluster", ["kafka.KafkaCluster", "spark.SparkCluster"])
def test_quick_test_that_starts_a_cluster_fails(tmp_path: Path, cluster: str) -> None:
    module, name = cluster.split(".")
    tests = f"from app.edges.embedded.{module} import {name}\n\ndef test_marked_wrongly():\n    {name}.start()\n"
    keeper = _Keeper()
    run_inside(tmp_path, tests, keeper, "--suite", "quick")
    assert keeper.outcomes == {"failed": 1}
