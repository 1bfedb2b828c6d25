"""The part of `make faults` in `make test`: the seed of the tests draws faults and protocol; one JSON line has it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.core.pipelines.pipeline import OffsetFencing, ProcessingGuarantee
from tests.fault_suite import ledger
from tests.fault_suite.ledger import Entry
from tests.fault_suite.run import SILENCE, finish, new_folder, run_on
from tests.fault_suite.task_stage import TaskStage

FAULTS = 12
MORE_FAULTS = 40
MINUTES = 12
AROUND_CHARS = 20_000
"""The limit of each kind of error: where only the output is left of a run, it must have all that is known."""


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("faults", [pytest.param(FAULTS, marks=pytest.mark.always), MORE_FAULTS])
def test_faults_lose_duplicate_tear_and_reorder_nothing(
    seed: int, faults: int, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = new_folder(seed)
    entry = run_on(TaskStage(seed, folder, brokers=3), seed=seed, folder=folder, minutes=MINUTES, at_most=faults)
    with capsys.disabled():
        sys.stdout.write(f"\n{ledger.line_of(entry)}\n")
    assert_exact(entry, folder, f"make faults SEED={seed} MINUTES={MINUTES} ARGS='--faults {faults}'")
    assert entry.faults == faults


@pytest.mark.slow
@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("fencing", list(OffsetFencing))
def test_twelve_faults_do_nothing_to_a_producer_for_each_partition(
    seed: int, fencing: OffsetFencing, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = new_folder(seed)
    stage = TaskStage(seed, folder, brokers=3, guarantee=ProcessingGuarantee.EXACTLY_ONCE, fencing=fencing)
    entry = run_on(stage, seed=seed, folder=folder, minutes=MINUTES, at_most=FAULTS)
    with capsys.disabled():
        sys.stdout.write(f"\n{ledger.line_of(entry)}\n")
    again = f"GUARANTEE=exactly_once ARGS='--fencing {fencing} --faults {FAULTS}'"
    assert_exact(entry, folder, f"make faults SEED={seed} MINUTES={MINUTES} {again}")
    assert entry.faults == FAULTS


def assert_exact(entry: Entry, folder: Path, replay: str) -> None:
    """Or it says where to look, and how to see it again."""
    finish(entry, folder)
    kept = [*sorted(folder.glob("around/*.txt")), *folder.glob(SILENCE)]
    around = "\n".join(path.read_text(encoding="utf-8")[:AROUND_CHARS] for path in kept)
    assert entry.is_exact, f"{entry.failure}; see {folder}; replay it: {replay}\n{around}"
    assert entry.records > 0
