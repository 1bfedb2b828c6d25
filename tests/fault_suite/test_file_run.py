"""The part of `make faults STAGE=files` in `make test`, drawn by the seed of the tests."""

from __future__ import annotations

import shutil
import sys

import msgspec
import pytest

from tests.fault_suite.file_run import run_files
from tests.fault_suite.run import new_folder

FAULTS = 15
MINUTES = 8


@pytest.mark.slow
@pytest.mark.faults
def test_fifteen_faults_and_a_bad_store_lose_and_duplicate_nothing_and_leave_only_orphans(
    seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = new_folder(seed)
    found = run_files(seed, folder, brokers=3, minutes=MINUTES, at_most=FAULTS)
    with capsys.disabled():
        sys.stdout.write(f"\n{msgspec.json.encode(found).decode()}\n")
    replay = f"make faults STAGE=files SEED={seed} MINUTES={MINUTES} ARGS='--faults {FAULTS}'"
    assert found.failure is None, f"{found.failure}; see {folder}; replay it: {replay}"
    assert (found.lost, found.duplicated, found.dangling, found.faults) == (0, 0, 0, FAULTS)
    assert found.records > 0
    shutil.rmtree(folder)
