"""What `make test` runs of `make faults`: the seed of the tests draws faults and protocol; one JSON line tells it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fault_suite import ledger
from tests.fault_suite.run import Run
from tests.fault_suite.task_stage import TaskStage

FAULTS = 40
MINUTES = 12


@pytest.mark.slow
@pytest.mark.always
@pytest.mark.faults
def test_forty_faults_lose_duplicate_tear_and_reorder_nothing(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(seed, tmp_path)
    with TaskStage(seed, tmp_path, brokers=3) as stage:
        run.over(stage, minutes=MINUTES, at_most=FAULTS)
    entry = run.entry(stage.name)
    with capsys.disabled():
        sys.stdout.write(f"\n{ledger.line_of(entry)}\n")
    assert entry.is_exact, f"{entry.failure}; replay it: make faults SEED={seed} ARGS='--faults {FAULTS}'"
    assert entry.faults == FAULTS
    assert entry.records > 0
