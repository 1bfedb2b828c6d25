"""An S3 bucket by the API of s3fs, since fsspec's has neither pages of a listing nor multipart uploads."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Generator, Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, cast

import s3fs

from app.kit.store_failures import sentence_of
from app.products.files.orphans import Stored
from app.products.files.reader.errors import NoStoreError, StoreUnavailableError
from app.products.files.reader.open_upload import OpenUpload

_BLOCK = 8 << 20
_ANSWER_S = 60.0
_TRIES = 5


class S3Files:
    """Implement `FileStore`. s3fs repeats failed requests a few times; each takes at most a minute."""

    def __init__(self, *, bucket: str, prefix: str, root: str, options: Mapping[str, Any]) -> None:
        self.root = root
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        config = {"connect_timeout": 5, "read_timeout": 20, **options.get("config_kwargs", {})}
        filesystem: Any = s3fs.S3FileSystem
        try:
            self._s3 = filesystem(
                skip_instance_cache=True, use_listings_cache=False, **{**options, "config_kwargs": config}
            )
        except (KeyError, TypeError, ValueError) as error:
            raise NoStoreError(f"{root} cannot be opened with these options: {sentence_of(error)}") from None
        self._s3.retries = _TRIES

    def now_ms(self) -> int | None:
        """Return the `Date` of an answer, rounded down to seconds."""
        with self._translated("read the time"):
            answer = self._call("list_objects_v2", Prefix=self._prefix, MaxKeys=1)
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        return None if date is None else _ms_of(parsedate_to_datetime(str(date)))

    def list(self, folder: str) -> Iterator[Stored]:
        for page in self._pages("list_objects_v2", "ContinuationToken", "NextContinuationToken", folder):
            for one in page.get("Contents", ()):
                yield Stored(
                    path=str(one["Key"])[len(self._prefix) :],
                    size_bytes=int(one["Size"]),
                    modified_ms=_ms_of(one["LastModified"]),
                )

    def stat(self, path: str) -> Stored:
        with self._translated(f"read the size of {path}"):
            found = self._call("head_object", Key=self._prefix + path)
        return Stored(path=path, size_bytes=int(found["ContentLength"]), modified_ms=_ms_of(found["LastModified"]))

    def open(self, path: str) -> BinaryIO:
        """Open a file. Each read is a request of its own, so that none stays open while records are processed."""
        size = self.stat(path).size_bytes
        raw = _Ranges(self, f"{self._bucket}/{self._prefix}{path}", path, size)
        return cast("BinaryIO", io.BufferedReader(raw, _BLOCK))

    def read(self, full: str, path: str, start: int, end: int) -> bytes:
        with self._translated(f"read {path}"):
            return self._s3.cat_file(full, start=start, end=end, timeout=_ANSWER_S)

    def delete(self, path: str) -> None:
        """Delete a file; S3 does not report whether it existed."""
        with self._translated(f"delete {path}"):
            self._call("delete_object", Key=self._prefix + path)

    def open_uploads(self, folder: str) -> Iterator[OpenUpload]:
        marker: dict[str, str] = {}
        while True:
            with self._translated(f"list open uploads below {self.root}/{folder}"):
                page = self._call("list_multipart_uploads", Prefix=f"{self._prefix}{folder}/", **marker)
            for one in page.get("Uploads", ()):
                yield OpenUpload(
                    path=str(one["Key"])[len(self._prefix) :],
                    upload_id=str(one["UploadId"]),
                    begun_ms=_ms_of(one["Initiated"]),
                )
            if not page.get("IsTruncated"):
                return
            marker = {"KeyMarker": str(page["NextKeyMarker"]), "UploadIdMarker": str(page["NextUploadIdMarker"])}

    def abort_upload(self, upload: OpenUpload) -> None:
        with self._translated(f"abort the upload of {upload.path}"):
            self._call("abort_multipart_upload", Key=self._prefix + upload.path, UploadId=upload.upload_id)

    def _pages(self, method: str, asked: str, told: str, folder: str) -> Iterator[dict[str, Any]]:
        more: dict[str, str] = {}
        while True:
            with self._translated(f"list {self.root}/{folder}"):
                page = self._call(method, Prefix=f"{self._prefix}{folder}/", **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {asked: str(page[told])}

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        return self._s3.call_s3(method, timeout=_ANSWER_S, Bucket=self._bucket, **arguments)

    @contextlib.contextmanager
    def _translated(self, what: str) -> Generator[None]:
        try:
            yield
        except FileNotFoundError as error:
            # s3fs raises it for keys, uploads and buckets alike.
            if "NoSuchBucket" in str(error.__cause__):
                raise StoreUnavailableError(f"cannot {what}: the bucket {self._bucket} does not exist") from error
            raise
        except TimeoutError as error:
            raise StoreUnavailableError(f"cannot {what}: no answer within {_ANSWER_S:g} s") from error
        except Exception as error:  # the border to s3fs
            raise StoreUnavailableError(f"cannot {what}: {sentence_of(error)}") from error


class _Ranges(io.RawIOBase):
    """One object, which is read by ranges."""

    def __init__(self, files: S3Files, full: str, path: str, size: int) -> None:
        super().__init__()
        self._files, self._full, self._path, self._size = files, full, path, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        end = min(self._at + len(buffer), self._size)
        if self._at >= end:
            return 0
        found = self._files.read(self._full, self._path, self._at, end)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def _ms_of(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
