"""What travels to executors asks there for nothing that the workers' own list of packages does not install."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHAT_EVERYTHING_IMPORTS = """\
import importlib, pkgutil, sys
import app.wire, confluent_kafka, fastavro, msgspec, pyspark, s3fs, workers
before = set(sys.modules)
for room in (app.wire, workers):
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        importlib.import_module(module.name)
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Names at the top, of this house's too, without the standard library's and what executors' packages import."""
    asked = subprocess.run(
        [sys.executable, "-c", WHAT_EVERYTHING_IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(asked.stdout.split()) - set(sys.stdlib_module_names)


def test_nothing_is_imported_that_executors_do_not_have(imported: set[str]) -> None:
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "worker.lock").read_text("utf-8"), re.MULTILINE))
    of = packages_distributions()
    foreign = {name: of[name] for name in imported if name in of and not set(of[name]) & locked}
    assert {name: dists for name, dists in foreign.items() if dists != ["fenceline"]} == {}


def test_what_the_house_imports_is_seen(imported: set[str]) -> None:
    """Else the test above would see nothing at all."""
    assert {"app", "workers"} <= imported
