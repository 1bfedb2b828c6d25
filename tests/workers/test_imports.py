"""The package for executors imports nothing that the workers' list of packages does not install."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from app.edges.spark import package

ROOT = package.source_root()
IMPORT_EVERYTHING = """\
import importlib, sys
import confluent_kafka, fastavro, msgspec, pyspark, s3fs
before = set(sys.modules)
for name in sys.argv[2:]:
    module = importlib.import_module(name)
    assert module.__file__.startswith(sys.argv[1]), module.__file__
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""
LINT_IMPORTS = "from importlinter.cli import lint_imports_command as run; run()"
CONTRACT = "workers-use-rules-only"
PLANTED_IN = "app/core/pipelines/pipeline.py"
"""A module of rules that workers import."""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names at the top that all modules of the package import, but for the standard library and the packages' own."""
    folder = tmp_path_factory.mktemp("package")
    archive = package.build(version="1", into=folder).archive
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in zipfile.ZipFile(archive).namelist()
        if name.endswith(".py")
    ]
    asked = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING, str(archive), *modules],
        env={"PYTHONPATH": str(archive)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    return set(asked.stdout.split()) - set(sys.stdlib_module_names)


def test_every_module_of_the_package_imports_only_what_executors_have(imported: set[str]) -> None:
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "worker.lock").read_text("utf-8"), re.MULTILINE))
    of = packages_distributions()
    foreign = {name: of[name] for name in imported if name in of and not set(of[name]) & locked}
    assert {name: dists for name, dists in foreign.items() if dists != ["fenceline"]} == {}


def test_imports_of_the_package_are_seen(imported: set[str]) -> None:
    """The negative control of the test above."""
    assert {"app", "workers"} <= imported


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code in which a test may plant an import."""
    folder = tmp_path_factory.mktemp("sources")
    for name in ("app", "workers"):
        shutil.copytree(ROOT / name, folder / name, ignore=lambda _, names: {"__pycache__", "static"} & set(names))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("import msgspec", ""),
        ("import fastapi", "fastapi"),
        ("import sqlalchemy", "sqlalchemy"),
        ("def later() -> None:\n    import kafka", "kafka"),
        ("import app.core.pipelines.store", "sqlalchemy"),
        ("import app.kit.web.dependencies", "fastapi"),
    ],
)
def test_a_planted_import_that_executors_cannot_load_breaks_the_contract(
    sources: Path, line: str, refused: str
) -> None:
    planted = sources / PLANTED_IN
    before = planted.read_text("utf-8")
    planted.write_text(f"{before}\n{line}\n", "utf-8")
    try:
        asked = subprocess.run(
            [sys.executable, "-c", LINT_IMPORTS, "--no-cache", "--contract", CONTRACT],
            cwd=sources,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        planted.write_text(before, "utf-8")
    assert (asked.returncode == 0) is (refused == ""), asked.stdout + asked.stderr
    if refused:
        assert f"workers is not allowed to import {refused}" in asked.stdout
