"""A disk that is full takes nothing more, and what lay on it outlives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault_suite.spark_stage.disk import SmallDisk, abandoned, may_mount


def test_disks_of_processes_that_are_gone_are_abandoned_and_nothing_else_is() -> None:
    mounts = (
        "overlay / overlay rw 0 0\n"
        "fenceline-faults-17 /run/a\\040b/state tmpfs rw 0 0\n"
        "fenceline-faults-18 /run/mine tmpfs rw 0 0\n"
        "fenceline-faults- /run/odd tmpfs rw 0 0\n"
        "tmpfs /fenceline-faults-17 tmpfs rw 0 0\n"
    )
    assert abandoned(mounts, {18}.__contains__) == [Path("/run/a b/state")]


@pytest.mark.skipif(not may_mount(), reason="only root may mount a tmpfs")
def test_a_full_disk_refuses_until_it_is_emptied_and_is_kept_without_its_filling(tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "disk", size_mb=1, keep=tmp_path / "kept") as disk:
        (disk.folder / "before").write_text("there")
        assert 0 < disk.fill() <= 1024 * 1024
        with pytest.raises(OSError, match="No space left"):
            (disk.folder / "meanwhile").write_bytes(b"x" * 4096)
        disk.empty()
        (disk.folder / "after").write_bytes(b"x" * 4096)
        disk.fill()
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"before", "meanwhile", "after"}
    assert not list((tmp_path / "disk").iterdir()), "it is not mounted any more"
