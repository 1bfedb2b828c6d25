"""The seed decides which tests a run draws, and the quick tests come first."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


def collected(folder: Path, *arguments: str) -> list[str]:
    """Names of the tests in the order in which a run with these arguments would run them."""
    (folder / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    (folder / "test_some.py").write_text(TESTS, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  browser\n  faults\n  core\n", encoding="utf-8")
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments, str(folder)]
    # Plugins that are installed take seconds to import and have no say here.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=folder, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"::(\S+)", done.stdout)


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


def test_after_its_minutes_a_run_begins_no_test_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "test_some.py").write_text(
        "import time\n\n\ndef test_first(): time.sleep(1)\ndef test_second(): assert False\n", encoding="utf-8"
    )
    argv = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(tmp_path), "--minutes"]
    for minutes, said in (("0.01", "1 passed, 1 skipped"), ("1", "1 failed, 1 passed")):
        done = subprocess.run([*argv, minutes], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert said in done.stdout, done.stdout + done.stderr


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
