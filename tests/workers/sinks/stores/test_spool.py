"""Values in memory are bounded, and spooled ones come back unchanged."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.sinks.parts import Buffers, Parts
from workers.sinks.spool import Spool
from workers.sinks.spool_folder import SpoolFolder


@given(st.lists(st.lists(st.binary(max_size=50), max_size=8), max_size=6))
def test_pieces_come_back_in_their_order(pieces: list[list[bytes]]) -> None:
    spool = Spool(Path("/tmp"))  # noqa: S108 - it has no name there
    extents = [spool.append(piece) for piece in pieces]
    assert list(spool.read(extents)) == [value for piece in pieces for value in piece]
    assert [list(spool.read([extent])) for extent in extents] == pieces
    spool.clear()
    assert spool.size == 0


def test_it_has_no_name_and_gives_its_space_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    extent = spool.append([b"a"])
    assert not list(tmp_path.iterdir())
    spool.clear()
    with pytest.raises(OSError, match="cleared"):
        list(spool.read([extent]))


def test_a_piece_half_written_to_a_full_disk_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path)
    first = spool.append([b"first"])
    pwrite = os.pwrite

    def full(file: int, data: bytes, at: int) -> int:
        if at > first.size:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(file, data[:3], at)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            spool.append([b"is refused"])
    second = spool.append([b"second"])
    assert list(spool.read([first, second])) == [b"first", b"second"]


def test_memory_is_bounded_for_any_number_of_partition_values(tmp_path: Path) -> None:
    parts = Parts(Spool(tmp_path), Buffers(most_bytes=100_000))
    most = 0
    for number in range(5_000):
        for copy in range(2):
            parts.hold(parts.get((f"u{number}",)), b"%08d-%d" % (number, copy) + b"x" * 90)
            most = max(most, parts.held_bytes)
    assert most <= 100_000 + 100_000 // 32 + 200
    found = {values[0]: list(parts.values(part)) for values, part in parts.take_all()}
    assert len(found) == 5_000
    assert all([value[:8] for value in its] == [b"%08d" % int(name[1:])] * 2 for name, its in found.items())
    assert [value[8:10] for value in found["u7"]] == [b"-0", b"-1"]


def test_two_sinks_share_the_memory_limit(tmp_path: Path) -> None:
    buffers = Buffers(most_bytes=64_000)
    first, second = Parts(Spool(tmp_path), buffers), Parts(Spool(tmp_path), buffers)
    for _ in range(630):
        first.hold(first.get(("a",)), b"x" * 100)
    for _ in range(100):
        second.hold(second.get(("b",)), b"x" * 100)
    assert first.held_bytes + second.held_bytes <= 64_000 + 64_000 // 32 + 100
    assert len(list(second.values(second.get(("b",))))) == 100


def test_folder_of_an_ended_process_is_removed_and_a_living_one_stays(tmp_path: Path) -> None:
    living = SpoolFolder(tmp_path)
    gone = tmp_path / "fenceline-files-gone"
    gone.mkdir()
    (gone / ".lock").touch()
    (gone / "left.avro").touch()
    SpoolFolder(tmp_path).close()
    assert not gone.exists()
    assert living.path.exists()
    living.close()
    assert not list(tmp_path.iterdir())
