"""Memory does not grow with the number of partition values."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.workers.sinks.many_values import Report

MOST_MB = 600
VALUES = 100_000


def run(folder: Path, values: int, records: int, *more: str) -> Report:
    program = [sys.executable, "-m", "tests.workers.sinks.many_values", str(values), str(records), str(folder), *more]
    done = subprocess.run(program, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Report)


@pytest.mark.slow
def test_a_hundred_thousand_values_take_no_more_memory_than_a_few(tmp_path: Path) -> None:
    """All of them come, and in files; what is held is bounded by how many files a checkpoint has."""
    many = run(tmp_path, VALUES, VALUES)
    assert (many.values, many.records) == (VALUES, VALUES)
    assert many.files >= VALUES
    assert many.checkpoints > 1
    assert many.at_most_mb <= MOST_MB / 2


@pytest.mark.slow
def test_many_records_of_many_values_take_more_without_the_bounds(tmp_path: Path) -> None:
    """The control: the same records, nothing spilled and no checkpoint ended early."""
    assert run(tmp_path, VALUES, 2_500_000, "--unbounded").at_most_mb > MOST_MB
