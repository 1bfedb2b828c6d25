"""Uploads to an S3 API (moto), with faults between."""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Any

import pytest

from tests.support.object_store import S3, Fault, FaultyProxy
from tests.support.waiting import wait_for
from tests.workers.sinks.stores.conftest import MakeFile
from workers.sinks.s3_bucket import S3Bucket
from workers.sinks.store import UploadStore
from workers.sinks.uploads import ToUpload, UploadError

PART = 5 << 20
LONG = os.urandom(2 * PART + 1000)


def store(s3: S3, bucket: str, *, url: str | None = None) -> UploadStore:
    destination = S3Bucket(bucket=bucket, prefix="lake/raw", options=s3.options(url), part_bytes=PART)
    return UploadStore(f"s3://{bucket}/lake/raw", destination=destination, pause_s=lambda _: 0.01)


def is_write(method: str) -> bool:
    return method in ("PUT", "POST")


@pytest.mark.parametrize("content", [b"", b"a few records", LONG], ids=["empty", "one request", "parts"])
def test_a_file_is_at_its_path_below_the_root(
    s3: S3, bucket: str, proxy: FaultyProxy, make_file: MakeFile, content: bytes
) -> None:
    """Verified by what the bucket says of it: nothing is read back."""
    file = make_file(content)
    before_ms = time.time_ns() // 1_000_000

    (uploaded,) = store(s3, bucket, url=proxy.url).put_all([file], within_s=60)

    assert uploaded.path == file.path
    assert before_ms <= uploaded.uploaded_at_ms <= time.time_ns() // 1_000_000
    assert "GET" not in [method for method, _ in proxy.seen]
    assert s3.keys(bucket) == [f"lake/raw/{file.path}"]
    assert s3.content(bucket, f"lake/raw/{file.path}") == content
    assert s3.open_uploads(bucket) == []


def test_the_root_alone_makes_the_store(
    s3: S3, bucket: str, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials and address come from the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    files = [make_file(f"{number}".encode()) for number in range(10)]

    uploaded = UploadStore(f"s3://{bucket}/lake").put_all(files, within_s=60)

    assert [one.path for one in uploaded] == [file.path for file in files]
    assert s3.keys(bucket) == sorted(f"lake/{file.path}" for file in files)


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.LOST, Fault.TWICE])
@pytest.mark.parametrize("content", [b"a few records", LONG], ids=["one request", "parts"])
@pytest.mark.parametrize("which", range(4))
def test_a_request_that_fails_or_is_answered_falsely_is_made_good(
    s3: S3, bucket: str, proxy: FaultyProxy, make_file: MakeFile, fault: Fault, content: bytes, which: int
) -> None:
    """Each of the first requests in turn: of three parts these are all kinds that there are."""
    file = make_file(content)
    proxy.fault = lambda _method, _path, before: fault if before == which else Fault.NONE

    store(s3, bucket, url=proxy.url).put_all([file], within_s=60)

    assert s3.content(bucket, f"lake/raw/{file.path}") == content


@pytest.mark.parametrize(("content", "write"), [(b"a few records", 0), (LONG, 2)], ids=["one request", "parts"])
def test_a_changed_upload_is_never_taken_for_the_file(
    s3: S3, bucket: str, proxy: FaultyProxy, make_file: MakeFile, content: bytes, write: int
) -> None:
    """S3 would refuse the request by its checksum; moto keeps what it got."""
    file = make_file(content)
    proxy.fault = lambda _method, _path, before: Fault.CHANGED if before == write else Fault.NONE

    with pytest.raises(UploadError, match=f"the object at the path has the SHA-256 .*, not {file.sha256}"):
        store(s3, bucket, url=proxy.url).put_all([file], within_s=60)


def test_an_upload_that_arrived_though_its_answer_was_lost_is_verified_and_not_sent_again(
    s3: S3, bucket: str, proxy: FaultyProxy, make_file: MakeFile
) -> None:
    file = make_file()
    proxy.fault = lambda _method, _path, before: Fault.LOST if before == 0 else Fault.NONE

    store(s3, bucket, url=proxy.url).put_all([file], within_s=60)

    versions = s3.client.list_object_versions(Bucket=bucket)["Versions"]
    assert len(versions) == 1
    assert [method for method, _ in proxy.seen] == ["PUT", "PUT", "HEAD"]


def test_an_object_at_the_path_is_never_overwritten(s3: S3, bucket: str, make_file: MakeFile) -> None:
    short, long = make_file(b"ours, of this size"), make_file(LONG)
    s3.client.put_object(Bucket=bucket, Key=f"lake/raw/{short.path}", Body=b"not ours, one of 18")
    s3.client.put_object(Bucket=bucket, Key=f"lake/raw/{long.path}", Body=bytes(len(LONG)))
    for file, cause in ((short, "has 19 bytes, not 18"), (long, "has the SHA-256")):
        before = s3.content(bucket, f"lake/raw/{file.path}")
        with pytest.raises(UploadError, match=cause) as raised:
            store(s3, bucket).put_all([file], within_s=60)
        assert file.path in str(raised.value)
        assert s3.content(bucket, f"lake/raw/{file.path}") == before
    assert s3.open_uploads(bucket) == []


@pytest.mark.parametrize("content", [b"a few records", LONG], ids=["one request", "parts"])
def test_a_store_that_hangs_holds_no_caller_past_the_deadline(
    s3: S3, bucket: str, proxy: FaultyProxy, make_file: MakeFile, content: bytes
) -> None:
    file = make_file(content)
    to = store(s3, bucket, url=proxy.url)
    # The first request loads what botocore knows of S3, which takes a second of a busy machine.
    to.put_all([make_file()], within_s=60)
    proxy.fault = lambda method, _path, _before: Fault.HELD if is_write(method) else Fault.NONE
    beats: list[float] = []
    began = time.monotonic()

    with pytest.raises(UploadError, match=f"{file.path} was not uploaded in time.*"):
        to.put_all([file], within_s=3, between=lambda: beats.append(time.monotonic()))

    assert time.monotonic() - began < 4.5
    gaps = [later - earlier for earlier, later in zip([began, *beats], beats, strict=False)]
    # Half a second each, and what the machine adds.
    assert max(gaps) < 1.5


def test_a_late_upload_is_an_orphan_and_blocks_no_other(
    s3: S3, bucket: str, proxy: FaultyProxy, make_file: MakeFile
) -> None:
    first, late, next_one = make_file(b"first"), make_file(b"late"), make_file(b"next")
    to = store(s3, bucket, url=proxy.url)
    # It loads what botocore knows of S3. Else the time may be over before the late request was sent.
    to.put_all([first], within_s=60)
    proxy.fault = lambda _method, path, _before: Fault.HELD if late.path.split("/")[-1] in path else Fault.NONE
    with pytest.raises(UploadError):
        to.put_all([late], within_s=1)

    to.put_all([next_one], within_s=30)
    assert s3.keys(bucket) == sorted(f"lake/raw/{one.path}" for one in (first, next_one))
    proxy.release()

    wait_for(lambda: len(s3.keys(bucket)) == 3, 30, "the late upload")


@pytest.mark.parametrize("fault", [Fault.HELD, Fault.UNANSWERED])
@pytest.mark.parametrize(
    ("content", "which"),
    [(b"a few records", 0), (b"a few records", 1), *((LONG, number) for number in range(6))],
    ids=["put", "look", "create", "part 1", "part 2", "part 3", "complete", "look at parts"],
)
def test_a_request_that_arrives_late_or_is_answered_late_is_made_good(
    s3: S3, bucket: str, proxy: FaultyProxy, make_file: MakeFile, fault: Fault, content: bytes, which: int
) -> None:
    """Late and twice: it is held until the next try begins, then both arrive."""
    file = make_file(content)
    config = {"config_kwargs": {"read_timeout": 1.5, "connect_timeout": 5}}
    destination = S3Bucket(bucket=bucket, prefix="", options={**s3.options(proxy.url), **config}, part_bytes=PART)
    proxy.fault = lambda _method, _path, before: fault if before == which else Fault.NONE
    proxy.releases_itself = True

    UploadStore("s3://", destination=destination, pause_s=lambda _: 0.01).put_all([file], within_s=60)

    assert len(proxy.seen) > which + 1
    assert s3.content(bucket, file.path) == content


def test_a_missing_bucket_is_reported_at_once(s3: S3, make_file: MakeFile) -> None:
    with pytest.raises(UploadError, match="NoSuchBucket"):
        store(s3, "nowhere-at-all").put_all([make_file()], within_s=60)


def test_a_file_that_changed_in_the_spool_is_refused(s3: S3, bucket: str, make_file: MakeFile) -> None:
    for content in (b"a few records", LONG):
        file = make_file(content)
        file.local.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        with pytest.raises(UploadError, match="has changed: its SHA-256 is not"):
            store(s3, bucket).put_all([file], within_s=60)
    assert s3.keys(bucket) == []
    assert s3.open_uploads(bucket) == []


def test_parts_of_a_try_that_failed_are_let_go(s3: S3, bucket: str, proxy: FaultyProxy, make_file: MakeFile) -> None:
    failing = iter((Fault.ERROR, Fault.ERROR))
    proxy.fault = lambda _method, path, _before: next(failing, Fault.NONE) if "partNumber=2" in path else Fault.NONE
    store(s3, bucket, url=proxy.url).put_all([make_file(LONG)], within_s=30)
    assert sum(method == "POST" and path.endswith("?uploads") for method, path in proxy.seen) == 3
    assert s3.open_uploads(bucket) == []


@pytest.mark.parametrize("content", [b"", b"a few records", LONG], ids=["empty", "one request", "parts"])
@pytest.mark.parametrize("etag", ["md5", "opaque"])
def test_a_store_without_checksums_is_verified_by_its_etag_and_else_read_back(
    s3: S3,
    bucket: str,
    proxy: FaultyProxy,
    make_file: MakeFile,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    etag: str,
) -> None:
    """An old store returns no SHA-256; one that encrypts has ETags that are no MD5."""
    call = S3Bucket._call  # pyright: ignore[reportPrivateUsage]

    def silent(self: S3Bucket, method: str, deadline_s: float, **arguments: Any) -> dict[str, Any]:
        answer = call(self, method, deadline_s, **arguments)
        if method == "head_object":
            answer.pop("ChecksumSHA256", None)
            if etag == "opaque":
                answer = {**answer, "ETag": '"opaque"'}
        return answer

    monkeypatch.setattr(S3Bucket, "_call", silent)
    file = make_file(content)
    store(s3, bucket, url=proxy.url).put_all([file], within_s=60)
    assert s3.content(bucket, f"lake/raw/{file.path}") == content
    was_read = "GET" in [method for method, _ in proxy.seen]
    assert was_read == (etag == "opaque" and content != b"")

    if content:
        s3.client.put_object(Bucket=bucket, Key=f"lake/raw/{file.path}", Body=bytes(len(content)))
        with pytest.raises(UploadError, match="has the SHA-256"):
            store(s3, bucket).put_all([file], within_s=60)


def test_no_message_has_a_credential_in_it(s3: S3, make_file: MakeFile) -> None:
    options = {**s3.options(), "secret": "very-secret", "key": "access-key"}
    destination = S3Bucket(bucket="nowhere-at-all", prefix="", options=options)
    with pytest.raises(UploadError) as raised:
        UploadStore("s3://nowhere-at-all", destination=destination).put_all([make_file()], within_s=10)
    assert "secret" not in str(raised.value)
    assert "access-key" not in str(raised.value)


def test_a_store_that_is_made_after_a_fork_works_though_the_parent_has_used_one(
    s3: S3, bucket: str, make_file: MakeFile
) -> None:
    """As PySpark's workers are forked."""
    store(s3, bucket).put_all([make_file()], within_s=60)
    file = make_file(b"of the child")
    child = multiprocessing.get_context("fork").Process(target=_upload, args=(s3, bucket, file))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert s3.content(bucket, f"lake/raw/{file.path}") == b"of the child"


def _upload(s3: S3, bucket: str, file: ToUpload) -> None:
    store(s3, bucket).put_all([file], within_s=30)
