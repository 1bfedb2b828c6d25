"""What `make test` runs of `make faults`: the seed of the tests draws faults and protocol; one JSON line tells it."""

from __future__ import annotations

import sys

import pytest

from tests.fault_suite import ledger
from tests.fault_suite.run import finish, new_folder, run_on
from tests.fault_suite.task_stage import TaskStage

FAULTS = 40
MINUTES = 12
AROUND_CHARS = 20_000
"""Of each kind of what is wrong: where nothing but the output is left of a run, it must say what there is to know."""
REPLAY = f"make faults SEED={{seed}} MINUTES={MINUTES} ARGS='--faults {FAULTS}'"


@pytest.mark.slow
@pytest.mark.always
@pytest.mark.faults
def test_forty_faults_lose_duplicate_tear_and_reorder_nothing(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    folder = new_folder(seed)
    entry = run_on(TaskStage(seed, folder, brokers=3), seed=seed, folder=folder, minutes=MINUTES, at_most=FAULTS)
    with capsys.disabled():
        sys.stdout.write(f"\n{ledger.line_of(entry)}\n")
    finish(entry, folder)
    around = "\n".join(path.read_text(encoding="utf-8")[:AROUND_CHARS] for path in sorted(folder.glob("around/*.txt")))
    assert entry.is_exact, f"{entry.failure}; see {folder}; replay it: {REPLAY.format(seed=seed)}\n{around}"
    assert entry.faults == FAULTS
    assert entry.records > 0
