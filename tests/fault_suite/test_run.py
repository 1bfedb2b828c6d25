from __future__ import annotations

from pathlib import Path

import msgspec

from tests.fault_suite.run import Run, finish


def test_a_run_that_did_not_come_to_its_end_is_told_and_leaves_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "7-1"
    folder.mkdir()
    run = Run(7, folder)
    run.failed(TimeoutError("not at rest"))
    entry = run.entry("nowhere")
    finish(entry, folder)
    assert not entry.is_exact
    assert (entry.seed, entry.faults, entry.cluster, entry.failure) == (7, 0, "nowhere", "TimeoutError: not at rest")
    assert (folder / "failure.txt").read_text() == "TimeoutError: not at rest\n"
    assert "TimeoutError: not at rest" in (folder / "traceback.txt").read_text()


def test_a_run_that_went_well_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "7-2"
    folder.mkdir()
    finish(msgspec.structs.replace(Run(7, folder).entry("nowhere"), failure=None), folder)
    assert not folder.exists()
