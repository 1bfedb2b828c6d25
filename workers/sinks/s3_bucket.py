"""An S3 bucket as a store, by s3fs: parts with checksums, nothing overwritten, verified by the bucket's answers."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import msgspec
import s3fs

from app.kit.store_failures import sentence_of
from workers.sinks.uploads import StoreFaultError, StoreRefusalError, ToUpload, left_s

PART_BYTES = 8 << 20
"""Files up to this size are one request, larger ones parts of it; S3 takes no smaller part than 5 MiB, and 10,000."""

_MAX_PARTS = 10_000
_CONNECT_S = 5.0
_ANSWER_S = 20.0
_ABORT_S = 5.0
REQUEST_CONFIG = {
    "connect_timeout": _CONNECT_S,
    "read_timeout": _ANSWER_S,
    "retries": {"total_max_attempts": 1, "mode": "standard"},
    "max_pool_connections": 64,
}
"""Settings of botocore: the bound of one request, and no hidden retries."""
# Permanent errors, of the request or the bucket; everything else is retried.
_REFUSED = frozenset(
    {
        "AccessDenied",
        "AllAccessDisabled",
        "AuthorizationHeaderMalformed",
        "EntityTooLarge",
        "InvalidAccessKeyId",
        "InvalidBucketName",
        "KeyTooLongError",
        "NoSuchBucket",
        # The store does not know `If-None-Match`: one that might overwrite is not supported.
        "NotImplemented",
        "PermanentRedirect",
        "SignatureDoesNotMatch",
    }
)
# Errors of a write that must not overwrite: the path is taken, or another write to it is in progress.
_TAKEN = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"})


class S3Bucket:
    """upload:
    1. send it, in parts if it is large    each with its SHA-256, so that the bucket refuses what changed on its way;
                                           the last request only if nothing is at the path (`If-None-Match: *`)
    2. ask for the object at the path      size, and its SHA-256 or the MD5 in its ETag, each as it must be for these
                                           parts; where neither is given (an old store, an encrypting one), read it back

    An upload whose answer was lost, or came late, may have arrived. The next attempt then finds the path taken, and
    step 2 shows whether by the same content. An attempt that fails within its parts aborts them. The collector aborts
    parts that a crash leaves open, or whose first answer came too late.

    Retries are the caller's alone: those of s3fs and botocore, which have no deadline, are off.
    """

    def __init__(self, *, bucket: str, prefix: str, options: Mapping[str, Any], part_bytes: int = PART_BYTES) -> None:
        """`options` as s3fs.S3FileSystem takes them. Raises ValueError when it refuses them."""
        if not bucket:
            raise ValueError("s3:// names no bucket: s3://bucket/prefix does")
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._part_bytes = part_bytes
        config = {**REQUEST_CONFIG, **options.get("config_kwargs", {})}
        filesystem: Any = s3fs.S3FileSystem
        try:
            self._s3 = filesystem(skip_instance_cache=True, **{**options, "config_kwargs": config})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"s3://{bucket} cannot be opened with these options: {sentence_of(error)}") from None
        self._s3.retries = 1

    def upload(self, file: ToUpload, *, deadline_s: float) -> None:
        key = f"{self._prefix}{file.path}"
        part_bytes = max(self._part_bytes, -(-file.size_bytes // _MAX_PARTS))
        try:
            with file.local.open("rb") as opened:
                if file.size_bytes <= part_bytes:
                    checksum = self._put(key, opened, file, deadline_s=deadline_s)
                else:
                    checksum = self._put_parts(key, opened, file, part_bytes, deadline_s=deadline_s)
            self._verify(key, file, checksum, part_bytes, deadline_s=deadline_s)
        except OSError as error:
            # An error of the local file: those of the bucket are translated where it is called.
            raise StoreRefusalError(sentence_of(error)) from error

    def _put(self, key: str, opened: BinaryIO, file: ToUpload, *, deadline_s: float) -> str:
        body = opened.read()
        digest = hashlib.sha256(body)
        _check_read(file, len(body), digest.hexdigest())
        checksum = _base64(digest.digest())
        # Taken by an earlier attempt that did arrive, or by another file: the verification shows it.
        with contextlib.suppress(_TakenError):
            self._call(
                "put_object",
                deadline_s,
                Key=key,
                Body=body,
                ChecksumSHA256=checksum,
                ContentType="application/avro",
                IfNoneMatch="*",
            )
        return checksum

    def _put_parts(self, key: str, opened: BinaryIO, file: ToUpload, part_bytes: int, *, deadline_s: float) -> str:
        upload_id = self._call(
            "create_multipart_upload",
            deadline_s,
            Key=key,
            ChecksumAlgorithm="SHA256",
            ContentType="application/avro",
        )["UploadId"]
        is_complete = False
        try:
            whole, of_parts = hashlib.sha256(), hashlib.sha256()
            size, parts = 0, list[dict[str, Any]]()
            while body := opened.read(part_bytes):
                whole.update(body)
                size += len(body)
                digest = hashlib.sha256(body).digest()
                of_parts.update(digest)
                part = {"PartNumber": len(parts) + 1, "ChecksumSHA256": _base64(digest)}
                sent = self._call("upload_part", deadline_s, Key=key, UploadId=upload_id, Body=body, **part)
                parts.append({**part, "ETag": sent["ETag"]})
            _check_read(file, size, whole.hexdigest())
            with contextlib.suppress(_TakenError):
                self._call(
                    "complete_multipart_upload",
                    deadline_s,
                    Key=key,
                    UploadId=upload_id,
                    MultipartUpload={"Parts": parts},
                    IfNoneMatch="*",
                )
                is_complete = True
        finally:
            if not is_complete:
                self._abort(key, upload_id)
        return _base64(of_parts.digest())

    def _abort(self, key: str, upload_id: str) -> None:
        """Abort its parts, if that can be done at once; they cost money until the collector finds them."""
        # The earlier error is reported; the collector fixes this one.
        with contextlib.suppress(Exception):
            self._s3.call_s3(
                "abort_multipart_upload", timeout=_ABORT_S, Bucket=self._bucket, Key=key, UploadId=upload_id
            )

    def _verify(self, key: str, file: ToUpload, checksum: str, part_bytes: int, *, deadline_s: float) -> None:
        found = self._call("head_object", deadline_s, Key=key, ChecksumMode="ENABLED")
        size = int(found["ContentLength"])
        if size != file.size_bytes:
            raise StoreRefusalError(f"the object at the path has {size} bytes, not {file.size_bytes}")
        told = found.get("ChecksumSHA256")
        # For parts it is written with their number behind it, but not everywhere.
        if told is not None and str(told).partition("-")[0] == checksum:
            return
        if told is None and str(found.get("ETag", "")).strip('"').lower() == _md5_etag(file, part_bytes):
            return
        self._read_back(key, file, deadline_s=deadline_s)

    def _read_back(self, key: str, file: ToUpload, *, deadline_s: float) -> None:
        """Compare the content: another checksum may be of other parts, and an ETag of encrypted data."""
        digest = hashlib.sha256()
        for start in range(0, file.size_bytes, self._part_bytes):
            end = min(start + self._part_bytes, file.size_bytes)
            digest.update(self._read(f"{self._bucket}/{key}", start, end, deadline_s=deadline_s))
        if digest.hexdigest() != file.sha256:
            raise StoreRefusalError(f"the object at the path has the SHA-256 {digest.hexdigest()}, not {file.sha256}")

    def _read(self, path: str, start: int, end: int, *, deadline_s: float) -> bytes:
        try:
            return self._s3.cat_file(path, start=start, end=end, timeout=left_s(deadline_s))
        except StoreFaultError:
            raise
        except Exception as error:  # the border to s3fs
            raise _translated(error, f"reading {self._bucket} back") from error

    def _call(self, method: str, deadline_s: float, **arguments: Any) -> dict[str, Any]:
        """One request of S3's API; it is cancelled when its time is over."""
        try:
            return self._s3.call_s3(method, timeout=left_s(deadline_s), Bucket=self._bucket, **arguments)
        except StoreFaultError:
            raise
        except Exception as error:  # the border to s3fs
            raise _translated(error, f"{method} of {self._bucket}") from error


class _TakenError(Exception):
    """Something is at the path."""


def _check_read(file: ToUpload, size_bytes: int, sha256: str) -> None:
    """Raise StoreRefusalError unless the spool's file is as it was closed there."""
    if size_bytes != file.size_bytes or sha256 != file.sha256:
        raise StoreRefusalError(f"{file.local} has changed: its SHA-256 is not {file.sha256} any more")


def _md5_etag(file: ToUpload, part_bytes: int) -> str:
    """The ETag of an object that is not encrypted with a key of its own, sent as one or in these parts."""
    digests: list[bytes] = []
    with file.local.open("rb") as opened:
        while body := opened.read(part_bytes):
            digests.append(hashlib.md5(body, usedforsecurity=False).digest())
    if file.size_bytes <= part_bytes:
        return (digests[0] if digests else hashlib.md5(usedforsecurity=False).digest()).hex()
    return f"{hashlib.md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(digests)}"


class _ClientAnswer(msgspec.Struct):
    """The used part of botocore's ClientError."""

    code: str = ""
    message: str = ""


def _answer_of(error: BaseException) -> _ClientAnswer:
    """The answer of S3: s3fs reports most refusals as Python's own errors, with S3's answer behind them."""
    at: BaseException | None = error
    while at is not None:
        response: dict[str, Any] | None = getattr(at, "response", None)
        if response is not None:
            said: dict[str, Any] = response.get("Error", {})
            return _ClientAnswer(code=str(said.get("Code", "")), message=str(said.get("Message", "")))
        at = at.__cause__
    return _ClientAnswer()


def _translated(error: Exception, what: str) -> Exception:
    answer = _answer_of(error)
    if answer.code in _TAKEN:
        return _TakenError()
    sentence = sentence_of(error)
    if answer.code and answer.code not in sentence:
        sentence = f"{answer.code}: {sentence}"
    if answer.code in _REFUSED or type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        return StoreRefusalError(f"{what}: {sentence}")
    return StoreFaultError(f"{what}: {sentence}")


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")
