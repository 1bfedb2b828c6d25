"""Stores that only fsspec knows: one that forgets, one that damages, one that raises unexpected errors."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, ClassVar, cast

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from app.kit.store_failures import sentence_of
from tests.support.topics import unique_name
from tests.workers.sinks.stores.conftest import MakeFile
from workers.sinks.store import UploadStore
from workers.sinks.uploads import UploadError

# fsspec has no types that a subclass could keep to.
_MEMORY: Any = MemoryFileSystem


class ScriptedFilesystem(_MEMORY):
    """Memory; `putting` does what a test says instead of writing what it is given."""

    protocol = "scripted"
    putting: ClassVar[Callable[[Any, str, str], None]] = _MEMORY.put_file

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        type(self).putting(self, lpath, rpath)


@pytest.fixture
def filesystem() -> Generator[type[ScriptedFilesystem]]:
    cast("Any", fsspec).register_implementation("scripted", ScriptedFilesystem, clobber=True)
    yield ScriptedFilesystem
    ScriptedFilesystem.putting = _MEMORY.put_file


def store() -> tuple[UploadStore, str]:
    root = f"scripted://{unique_name('lake')}"
    return UploadStore(root, pause_s=lambda _: 0.01), root


def content(root: str, path: str) -> bytes:
    return cast("Any", fsspec).open(f"{root}/{path}").open().read()


def test_it_is_uploaded_and_read_back(filesystem: type[ScriptedFilesystem], make_file: MakeFile) -> None:
    to, root = store()
    files = [make_file(b"one"), make_file(b"two")]
    to.put_all(files, within_s=30)
    to.put_all(files, within_s=30)
    assert [content(root, file.path) for file in files] == [b"one", b"two"]


def test_a_damaged_file_is_detected(filesystem: type[ScriptedFilesystem], make_file: MakeFile) -> None:
    def put(self: Any, _local: str, path: str) -> None:
        self.pipe_file(path, b"recorDs")

    filesystem.putting = put
    with pytest.raises(UploadError, match="the upload, read back, has the SHA-256"):
        store()[0].put_all([make_file(b"records")], within_s=30)


def test_a_store_that_says_yes_and_keeps_nothing_is_seen(
    filesystem: type[ScriptedFilesystem], make_file: MakeFile
) -> None:
    filesystem.putting = lambda _self, _local, _path: None
    with pytest.raises(UploadError, match="was not uploaded in time"):
        store()[0].put_all([make_file()], within_s=0.3)


def test_an_existing_file_is_never_overwritten(filesystem: type[ScriptedFilesystem], make_file: MakeFile) -> None:
    to, root = store()
    file = make_file(b"ours")
    cast("Any", fsspec).filesystem("scripted").pipe_file(f"{root}/{file.path}", b"them")
    with pytest.raises(UploadError, match="the path is taken"):
        to.put_all([file], within_s=30)
    assert content(root, file.path) == b"them"


def test_an_error_of_the_library_is_tried_again(filesystem: type[ScriptedFilesystem], make_file: MakeFile) -> None:
    tries: list[None] = []

    def put(self: Any, local: str, path: str) -> None:
        tries.append(None)
        if len(tries) < 3:
            raise RuntimeError("connection pool is closed")
        _MEMORY.put_file(self, local, path)

    filesystem.putting = put
    store()[0].put_all([make_file()], within_s=30)
    assert len(tries) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("GET https://user:word@store.example/x failed", "GET https://…@store.example/x failed"),
        ("https://b/x?X-Amz-Credential=AK%2F1&X-Amz-Signature=abc&x=1", "https://b/x?X-Amz-Credential=…&X-Amz-Signature=…&x=1"),
        ("two\n lines", "two lines"),
        ("", "ValueError"),
    ],
)  # fmt: skip
def test_a_librarys_error_is_reported_without_its_secrets(text: str, said: str) -> None:
    assert sentence_of(ValueError(text)) == said
