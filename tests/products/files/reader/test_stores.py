"""Stores as readers and the collector see them: a folder, and an S3 API (moto)."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from app.products.files.reader.errors import NoStoreError, StoreUnavailableError
from app.products.files.reader.s3_files import S3Files
from app.products.files.reader.store import FileStore, open_store
from tests.support.object_store import S3, serving_s3
from tests.support.topics import unique_name

Put = Callable[[str, bytes], None]


@pytest.fixture(scope="module")
def s3() -> Generator[S3]:
    with serving_s3() as server:
        yield server


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileStore, Put]:
    """One with a way to put something into it."""
    if request.param == "folder":

        def write(path: str, content: bytes) -> None:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(content)

        return open_store(f"file://{tmp_path}"), write
    s3: S3 = request.getfixturevalue("s3")
    bucket = unique_name("bucket")
    s3.client.create_bucket(Bucket=bucket)

    def put(path: str, content: bytes) -> None:
        s3.client.put_object(Bucket=bucket, Key=f"lake/{path}", Body=content)

    return open_store(f"s3://{bucket}/lake", s3.options()), put


def test_all_below_a_folder_is_listed_and_nothing_beside_it(store: tuple[FileStore, Put]) -> None:
    files, put = store
    for path in ("p/a.avro", "p/day=1/b.avro", "p/day=1/hour=2/c.avro", "pp/d.avro", "e.avro"):
        put(path, b"12345")
    found = {stored.path: stored for stored in files.list("p")}
    assert set(found) == {"p/a.avro", "p/day=1/b.avro", "p/day=1/hour=2/c.avro"}
    assert found["p/a.avro"].size_bytes == 5
    assert files.stat("p/a.avro") == found["p/a.avro"]
    assert list(files.list("nothing")) == []


@pytest.mark.slow
def test_a_file_is_read_whole_and_deleted(store: tuple[FileStore, Put]) -> None:
    files, put = store
    content = os.urandom(20_000_000)
    put("p/a.avro", content)
    put("p/b.avro", b"")
    with files.open("p/a.avro") as opened:
        assert opened.read(3) == content[:3]
        assert opened.read() == content[3:]
    with files.open("p/b.avro") as opened:
        assert opened.read() == b""
    files.delete("p/a.avro")
    assert [stored.path for stored in files.list("p")] == ["p/b.avro"]
    for act in (files.stat, files.open):
        with pytest.raises(FileNotFoundError):
            act("p/a.avro")


def test_a_listing_of_many_pages_is_whole(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    call = S3Files._call  # pyright: ignore[reportPrivateUsage]

    def short_pages(self: S3Files, method: str, **arguments: Any) -> dict[str, Any]:
        most = {"list_objects_v2": "MaxKeys", "list_multipart_uploads": "MaxUploads"}
        return call(self, method, **arguments, **({most[method]: 3} if method in most else {}))

    monkeypatch.setattr(S3Files, "_call", short_pages)
    bucket = unique_name("bucket")
    s3.client.create_bucket(Bucket=bucket)
    for number in range(10):
        s3.client.put_object(Bucket=bucket, Key=f"p/{number}", Body=b"")
        s3.client.create_multipart_upload(Bucket=bucket, Key=f"p/{number}.avro")
    files = open_store(f"s3://{bucket}", s3.options())
    assert [stored.path for stored in files.list("p")] == [f"p/{number}" for number in range(10)]
    assert sorted(upload.path for upload in files.open_uploads("p")) == [f"p/{number}.avro" for number in range(10)]


def test_a_bucket_tells_its_time_and_a_folder_does_not(s3: S3, tmp_path: Path) -> None:
    bucket = unique_name("bucket")
    s3.client.create_bucket(Bucket=bucket)
    files = open_store(f"s3://{bucket}/lake", s3.options())
    s3.client.put_object(Bucket=bucket, Key="lake/p/x", Body=b"")
    told = files.now_ms()
    assert told is not None
    # Both by moto's clock, which is told to the second.
    assert abs(told - files.stat("p/x").modified_ms) < 60_000
    assert open_store(f"file://{tmp_path}").now_ms() is None


def test_uploads_in_parts_are_found_and_aborted(s3: S3) -> None:
    bucket = unique_name("bucket")
    s3.client.create_bucket(Bucket=bucket)
    for key in ("lake/p/a.avro", "lake/p/b.avro", "lake/q/c.avro"):
        s3.client.create_multipart_upload(Bucket=bucket, Key=key)
    files = open_store(f"s3://{bucket}/lake", s3.options())
    found = {upload.path: upload for upload in files.open_uploads("p")}
    assert set(found) == {"p/a.avro", "p/b.avro"}
    files.abort_upload(found["p/a.avro"])
    with pytest.raises(FileNotFoundError):
        files.abort_upload(found["p/a.avro"])
    assert sorted(s3.open_uploads(bucket)) == ["lake/p/b.avro", "lake/q/c.avro"]


def test_a_folder_has_no_open_uploads_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.avro").write_bytes(b"")
    lake = tmp_path / "lake"
    (lake / "p").mkdir(parents=True)
    (lake / "p/day=1").symlink_to(outside)
    (lake / "p/y.avro").symlink_to(outside / "x.avro")
    files = open_store(f"file://{lake}")
    assert list(files.list("p")) == []
    assert list(files.open_uploads("p")) == []


def test_a_folder_that_is_not_there_is_no_empty_store(tmp_path: Path) -> None:
    """It may be on another host, or not be mounted; then every referenced file would be missing."""
    files = open_store(f"file://{tmp_path}/lake")
    for act in (lambda: list(files.list("p")), lambda: files.open("p/x"), lambda: files.stat("p/x")):
        with pytest.raises(StoreUnavailableError, match=r"the folder file://.*/lake does not exist on this host"):
            act()


@pytest.mark.slow
def test_a_bucket_that_is_not_there_and_a_store_that_does_not_answer_are_said(s3: S3) -> None:
    nowhere = open_store("s3://nowhere-at-all/lake", s3.options())
    for act in (lambda: list(nowhere.list("p")), lambda: list(nowhere.open_uploads("p")), nowhere.now_ms):
        with pytest.raises(StoreUnavailableError, match="the bucket nowhere-at-all does not exist"):
            act()
    away = open_store("s3://bucket/lake", {**s3.options("http://127.0.0.1:9"), "config_kwargs": {"connect_timeout": 1}})
    with pytest.raises(StoreUnavailableError, match="cannot list s3://bucket/lake/p"):
        list(away.list("p"))


def test_a_root_is_named_when_it_is_none() -> None:
    with pytest.raises(NoStoreError, match="'lake' is not a supported store"):
        open_store("lake")


@pytest.mark.parametrize("path", ["p/link.avro", "linked/secret", "p/out/secret", "p/pipe", "p/folder"])
def test_no_link_is_followed_out_of_a_folder(tmp_path: Path, path: str) -> None:
    """Who may write references may name any path: links below the root are not ways out of it."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    (root / "p" / "folder").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "p" / "link.avro").symlink_to(outside / "secret")
    (root / "p" / "out").symlink_to(outside)
    (root / "linked").symlink_to(outside)
    os.mkfifo(root / "p" / "pipe")
    files = open_store(f"file://{root}")
    for act in (files.open, files.stat):
        with pytest.raises(StoreUnavailableError) as refused:
            act(path)
        assert path in str(refused.value)
    if path.endswith("secret"):
        with pytest.raises(StoreUnavailableError):
            files.delete(path)
    assert (outside / "secret").read_text() == "secret"


@pytest.mark.parametrize("folder", ["linked", "p/linked/inner"])
def test_a_link_is_not_followed_to_the_folder_that_is_listed(tmp_path: Path, folder: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    (outside / "inner").mkdir(parents=True)
    (outside / "inner" / "secret").write_text("secret")
    (root / "p").mkdir(parents=True)
    (root / "linked").symlink_to(outside)
    (root / "p" / "linked").symlink_to(outside)
    with pytest.raises(StoreUnavailableError, match="links are not followed"):
        list(open_store(f"file://{root}").list(folder))


def test_a_file_where_a_folder_is_expected_is_called_no_link(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("a file")
    files = open_store(f"file://{tmp_path}")
    for act in (lambda: list(files.list("p")), lambda: files.open("p/x"), lambda: files.delete("p/x")):
        with pytest.raises(StoreUnavailableError, match="Not a directory"):
            act()


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("x")
    (tmp_path / "root").symlink_to(tmp_path / "real")
    with open_store(f"file://{tmp_path / 'root'}").open("a") as file:
        assert file.read() == b"x"
