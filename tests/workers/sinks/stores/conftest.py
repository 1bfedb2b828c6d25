"""An S3 API, buckets of a test's own, and files to upload."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.support.object_store import S3, FaultyProxy, serving_s3
from tests.support.topics import unique_name
from workers.sinks.uploads import ToUpload

MakeFile = Callable[..., ToUpload]


@pytest.fixture(scope="module")
def s3() -> Generator[S3]:
    with serving_s3() as server:
        yield server


@pytest.fixture
def bucket(s3: S3) -> str:
    name = unique_name("bucket")
    s3.client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def proxy(s3: S3) -> Generator[FaultyProxy]:
    made = FaultyProxy(s3.port)
    yield made
    made.close()


@pytest.fixture
def make_file(tmp_path: Path) -> MakeFile:
    """A finished file in the spool: `make_file(b"content", path="p/day=1/….avro")`."""
    made: list[ToUpload] = []

    def make(content: bytes = b"records", *, path: str | None = None) -> ToUpload:
        local = tmp_path / f"spool-{len(made)}"
        local.write_bytes(content)
        file = ToUpload(
            local=local,
            path=path or f"flights/day=1/{len(made):032x}.avro",
            size_bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )
        made.append(file)
        return file

    return make
