"""The saved state of the observer: complete or unused, and never that of another cluster."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from app.core.journals import group_records
from app.core.observing.fold_files import FoldFiles
from app.core.observing.live_cluster import Folds
from app.kit.errors import UnavailableError
from tests.support.observing import cluster, hear, offset_batch, state_of, transaction_batch

CLUSTER = "a/b c"


@pytest.fixture
def folds() -> Folds:
    live = cluster()
    hear(live, transaction_batch("id", state_of(), at=0), transaction_batch("id 2", state_of(), at=1))
    hear(live, offset_batch("g", 5, at=0, producer_id=7), topic=group_records.TOPIC)
    return live.folds


def files_in(folder: Path, *groups: str) -> FoldFiles:
    return FoldFiles(folder, groups=groups)


def test_saved_state_is_loaded(tmp_path: Path, folds: Folds) -> None:
    files_in(tmp_path).save(CLUSTER, folds)
    assert files_in(tmp_path).load(CLUSTER) == (folds, "")
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_missing_file_has_no_note(tmp_path: Path) -> None:
    assert files_in(tmp_path).load(CLUSTER) == (Folds(), "")


@pytest.mark.parametrize("cut", [0, 1, 40, -1, -20], ids=str)
def test_truncated_file_is_renamed(tmp_path: Path, folds: Folds, cut: int) -> None:
    files_in(tmp_path).save(CLUSTER, folds)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:cut])
    loaded = files_in(tmp_path).load(CLUSTER)
    assert loaded.folds == Folds()
    assert str(file) in loaded.note
    assert "read from their beginning" in loaded.note
    assert [one.suffix for one in tmp_path.iterdir()] == [".unusable"]
    # Said once: the next start finds nothing.
    assert files_in(tmp_path).load(CLUSTER).note == ""


def test_every_changed_byte_is_detected(tmp_path: Path, folds: Folds) -> None:
    files_in(tmp_path).save(CLUSTER, folds)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    body = whole.index(b"\n") + 1
    for at in range(body, len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        file.chmod(0o600)
        assert files_in(tmp_path).load(CLUSTER).note


def test_file_of_another_cluster_is_not_used(tmp_path: Path, folds: Folds) -> None:
    files_in(tmp_path).save("another", folds)
    (file,) = tmp_path.iterdir()
    files_in(tmp_path).save(CLUSTER, folds)
    (ours,) = set(tmp_path.iterdir()) - {file}
    file.replace(ours)
    loaded = files_in(tmp_path).load(CLUSTER)
    assert "another" in loaded.note
    assert loaded.folds == Folds()


def test_file_of_a_newer_version_is_not_used(tmp_path: Path, folds: Folds) -> None:
    files_in(tmp_path).save(CLUSTER, folds)
    (file,) = tmp_path.iterdir()
    header, _, body = file.read_bytes().partition(b"\n")
    newer = {**msgspec.json.decode(header, type=dict[str, object]), "version": 99}
    file.write_bytes(msgspec.json.encode(newer) + b"\n" + body)
    assert "version 99" in files_in(tmp_path).load(CLUSTER).note


def test_other_groups_are_read_again_and_transactions_are_not(tmp_path: Path, folds: Folds) -> None:
    """The records of unwanted groups were skipped, so their state would be incomplete."""
    files_in(tmp_path, "orders-*").save(CLUSTER, folds)
    loaded = files_in(tmp_path).load(CLUSTER)
    assert loaded.folds.transactions == folds.transactions
    assert not loaded.folds.groups.groups
    assert not loaded.folds.groups.reading.positions


def test_write_error_is_reported(tmp_path: Path, folds: Folds) -> None:
    folder = tmp_path / "file"
    folder.write_text("in the way")
    with pytest.raises(UnavailableError, match=r"is not saved"):
        files_in(folder).save(CLUSTER, folds)
