"""The file of samples: the same after a restart, and renamed if it cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.clusters.partition import Partition
from app.core.lag.book import LagBook
from app.core.lag.fold_files import LagFiles
from tests.core.lag.test_movement import Watched, group_of


@pytest.fixture
def book() -> LagBook:
    watched = Watched()
    for at in range(40):
        watched.see(500 * at, 1_000 * at, lso=1_000 * at - 3)
    return watched.book


def test_book_is_the_same_after_a_restart(book: LagBook, tmp_path: Path) -> None:
    files = LagFiles(tmp_path / "lag")
    files.save("K/1", book)
    found = files.load("K/1")
    group = group_of(19_500)
    assert found.lags(group, now_ms=1_800_000_700_000, period_ms=15_000) == book.lags(
        group, now_ms=1_800_000_700_000, period_ms=15_000
    )
    assert (found.groups, found.history_of("readers")) == (book.groups, book.history_of("readers"))
    assert (found.moved, found.series) == (book.moved, book.series)
    (file,) = (tmp_path / "lag").iterdir()
    assert file.stat().st_mode & 0o077 == 0


def test_without_a_file_the_book_is_empty(tmp_path: Path) -> None:
    assert LagFiles(tmp_path).load("K").ends == {}


@pytest.mark.parametrize("kind", ["cut", "changed", "other cluster", "no file of ours"])
def test_unusable_file_is_renamed(book: LagBook, tmp_path: Path, kind: str) -> None:
    files = LagFiles(tmp_path)
    files.save("other" if kind == "other cluster" else "K", book)
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    if kind == "cut":
        del content[len(content) // 2 :]
    elif kind == "changed":
        content[-20] ^= 1
    elif kind == "no file of ours":
        content = bytearray(b"{}\n")
    file.unlink()
    (tmp_path / "K.lag").write_bytes(content)
    (tmp_path / "K.lag").chmod(0o600)
    assert files.load("K").ends == {}
    assert [one.name for one in tmp_path.iterdir()] == ["K.unusable"]


def test_rounds_ask_those_partitions_first_that_were_asked_longest_ago() -> None:
    watched = Watched()
    wanted = [Partition("orders", number) for number in range(5)]
    first = watched.book.due(wanted, 2)
    watched.see(1, 1)
    assert first == wanted[:2]
    assert watched.book.due(wanted, 2) == wanted[1:3]
