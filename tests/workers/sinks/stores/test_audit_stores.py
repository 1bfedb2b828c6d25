"""How an audit reads files of a bucket: whole and verified, or it knows why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.wire import file_contents
from app.core.wire.file_contents import NotAsReferencedError
from app.core.wire.file_references import FileReference
from tests.support.audited_files import write_ids
from tests.support.object_store import CREDENTIALS, REGION, S3, Fault, FaultyProxy
from workers.audit.reading import AuditReadError
from workers.audit.stores import FileStores

Put = Callable[..., FileReference]
IDS = [f"id-{number}" for number in range(2_000)]


@pytest.fixture(autouse=True)
def environment(proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an executor has its credentials and the address of its store from."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", CREDENTIALS["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CREDENTIALS["secret"])
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)


@pytest.fixture
def put(s3: S3, bucket: str, tmp_path: Path) -> Put:
    """A file in the bucket, and its reference; `content` in its place."""

    def put_file(*, root: str = f"s3://{bucket}/files", content: bytes | None = None) -> FileReference:
        reference = write_ids(tmp_path, 1, IDS, of_root=root)
        body = (tmp_path / reference.path).read_bytes() if content is None else content
        s3.client.put_object(Bucket=bucket, Key=f"files/{reference.path}", Body=body)
        return reference

    return put_file


def ids_of(reference: FileReference) -> list[str]:
    stores = FileStores([reference.root], stall_s=0.5, pause_s=lambda _: 0.01)
    with stores.fetch(reference) as content:
        return [record["id"] for record in file_contents.records(reference, content)]


def test_a_file_of_a_bucket_is_read_as_it_was_committed(put: Put) -> None:
    assert ids_of(put()) == IDS


def test_another_content_and_no_file_are_not_as_referenced(put: Put, s3: S3, bucket: str) -> None:
    with pytest.raises(NotAsReferencedError, match="has 5 bytes"):
        ids_of(put(content=b"other"))
    reference = put()
    s3.client.delete_object(Bucket=bucket, Key=f"files/{reference.path}")
    with pytest.raises(NotAsReferencedError, match="is not there"):
        ids_of(reference)


def test_a_store_that_fails_now_and_then_is_asked_again(put: Put, proxy: FaultyProxy) -> None:
    reference = put()
    proxy.fault = lambda _method, _path, before: Fault.ERROR if before % 2 == 0 else Fault.NONE
    assert ids_of(reference) == IDS


def test_a_store_that_never_answers_says_nothing_of_the_file(put: Put, proxy: FaultyProxy) -> None:
    reference = put()
    proxy.fault = lambda _method, _path, _before: Fault.ERROR
    with pytest.raises(AuditReadError, match="cannot be read"):
        ids_of(reference)


def test_a_bucket_that_is_not_there_says_nothing_of_its_files(put: Put) -> None:
    with pytest.raises(AuditReadError, match="there is no s3://nowhere-at-all/files for this executor"):
        ids_of(put(root="s3://nowhere-at-all/files"))
