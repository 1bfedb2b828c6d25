"""Uploads into a folder."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from app.products.files.orphans import form_of
from tests.workers.sinks.stores.conftest import MakeFile
from workers.sinks import local_folder
from workers.sinks.store import UploadStore
from workers.sinks.uploads import UploadError


def store(root: Path) -> UploadStore:
    return UploadStore(f"file://{root}", pause_s=lambda _: 0.01)


def all_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_files_are_at_their_paths_and_nothing_else_is_there(tmp_path: Path, make_file: MakeFile) -> None:
    root = tmp_path / "la ke/raw"
    files = [make_file(os.urandom(3_000_000)), make_file(b"")]
    UploadStore(f"file://{str(root).replace(' ', '%20')}").put_all(files, within_s=30)
    assert all_below(root) == sorted(file.path for file in files)
    for file in files:
        assert (root / file.path).read_bytes() == file.local.read_bytes()


def test_an_existing_file_with_the_same_content_is_accepted(tmp_path: Path, make_file: MakeFile) -> None:
    root, file = tmp_path / "lake", make_file()
    store(root).put_all([file], within_s=30)
    inode = (root / file.path).stat().st_ino
    store(root).put_all([file], within_s=30)
    assert (root / file.path).stat().st_ino == inode


@pytest.mark.parametrize("appears", ["before", "meanwhile"])
def test_an_existing_file_is_never_overwritten(
    tmp_path: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch, appears: str
) -> None:
    root, file = tmp_path / "lake", make_file(b"ours")
    final = root / file.path

    def somebody_else() -> None:
        final.parent.mkdir(parents=True, exist_ok=True)
        final.write_bytes(b"them")

    if appears == "before":
        somebody_else()
    else:
        copy = local_folder._copy  # pyright: ignore[reportPrivateUsage]

        def copy_and_lose(source: Path, target: Path, *, deadline_s: float) -> None:
            copy(source, target, deadline_s=deadline_s)
            somebody_else()

        monkeypatch.setattr(local_folder, "_copy", copy_and_lose)
    with pytest.raises(UploadError, match=f"{file.path} .*the path is taken"):
        store(root).put_all([file], within_s=30)
    assert final.read_bytes() == b"them"
    assert all_below(root) == [file.path]


def test_without_hard_links_it_is_renamed_and_nothing_is_overwritten(
    tmp_path: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    root, file, other = tmp_path / "lake", make_file(b"ours"), make_file(b"them")
    store(root).put_all([file], within_s=30)
    assert all_below(root) == [file.path]
    assert (root / file.path).read_bytes() == b"ours"
    (root / other.path).write_bytes(b"else")
    with pytest.raises(UploadError, match="the path is taken"):
        store(root).put_all([other], within_s=30)


def test_it_is_on_the_disk_before_it_is_at_its_place_and_its_name_is_after(
    tmp_path: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def noted_fsync(opened: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(opened).st_mode)
        steps.append("folder" if is_folder else "file")
        fsync(opened)

    def noted_link(source: Path, target: Path) -> None:
        steps.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    store(tmp_path / "lake").put_all([make_file(path="p/d=1/x.avro")], within_s=30)
    # The folder of the file, and those in which lake, p and d=1 are new.
    assert steps == ["file", "link", *["folder"] * 4]


def test_a_disk_that_is_full_for_a_moment_is_tried_again(
    tmp_path: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, times = os.fsync, [0]

    def full_twice(opened: int) -> None:
        times[0] += 1
        if times[0] <= 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(opened)

    monkeypatch.setattr(os, "fsync", full_twice)
    root, file = tmp_path / "lake", make_file()
    store(root).put_all([file], within_s=30)
    assert all_below(root) == [file.path]


def test_a_disk_that_stays_full_is_reported_and_holds_no_half_file(
    tmp_path: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_opened: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UploadError, match="No space left on device"):
        store(tmp_path / "lake").put_all([make_file()], within_s=0.3)
    assert all_below(tmp_path / "lake") == []


def test_a_damaged_file_is_never_put_in_place(
    tmp_path: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(source: Path, target: Path, *, deadline_s: float) -> None:
        target.write_bytes(source.read_bytes()[:-1] + b"?")

    monkeypatch.setattr(local_folder, "_copy", damaged)
    with pytest.raises(UploadError, match="the written file has the SHA-256"):
        store(tmp_path / "lake").put_all([make_file()], within_s=30)
    assert all_below(tmp_path / "lake") == []


def test_a_file_left_by_a_crash_has_a_name_that_the_collector_knows(
    tmp_path: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []

    def noted(source: Path, target: Path) -> None:
        left.append(source.relative_to(tmp_path / "lake").as_posix())
        source.rename(target)

    monkeypatch.setattr(os, "link", noted)
    store(tmp_path / "lake").put_all([make_file()], within_s=30)
    found = form_of("flights").fullmatch(left[0])
    assert found is not None
    assert found["partial"] is not None


def test_a_missing_spool_file_is_reported_at_once(tmp_path: Path, make_file: MakeFile) -> None:
    file = make_file()
    file.local.unlink()
    with pytest.raises(UploadError, match=f"{file.path} cannot be uploaded: No such file or directory: {file.local}"):
        store(tmp_path / "lake").put_all([file], within_s=60)


def test_a_root_that_is_a_file_is_reported_at_once(tmp_path: Path, make_file: MakeFile) -> None:
    (tmp_path / "lake").write_text("a file")
    with pytest.raises(UploadError, match=r"Not a directory|File exists"):
        store(tmp_path / "lake").put_all([make_file()], within_s=60)
