"""Where a test's file pipeline writes to: a folder, or a bucket whose API is reached through a faulty proxy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from app.products.files.reader.store import FileStore, open_store
from tests.support.object_store import CREDENTIALS, REGION, S3, FaultyProxy


class Lake(Protocol):
    """As a judge sees it: with eyes of its own, past every fault.

    environment: what a task's process needs to find it.
    """

    @property
    def root(self) -> str: ...
    @property
    def environment(self) -> Mapping[str, str]: ...

    def paths(self) -> set[str]:
        """All files in it, half files included."""
        ...

    def content(self, path: str) -> bytes | None:
        """None: nothing is there."""
        ...

    def store(self) -> FileStore:
        """For the collector."""
        ...


class Folder:
    """A lake in a folder of this host."""

    environment: Mapping[str, str] = {}

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        self.root = path.as_uri()

    def paths(self) -> set[str]:
        return {str(path.relative_to(self._path)) for path in self._path.rglob("*") if path.is_file()}

    def content(self, path: str) -> bytes | None:
        place = self._path / path
        return place.read_bytes() if place.is_file() else None

    def store(self) -> FileStore:
        return open_store(self.root)


class Bucket:
    """Tasks go through the proxy, the judge does not."""

    def __init__(self, s3: S3, name: str, proxy: FaultyProxy) -> None:
        s3.client.create_bucket(Bucket=name)
        self.root = f"s3://{name}/lake"
        self.proxy = proxy
        self.environment: Mapping[str, str] = {
            "AWS_ACCESS_KEY_ID": CREDENTIALS["key"],
            "AWS_SECRET_ACCESS_KEY": CREDENTIALS["secret"],
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": proxy.url,
        }
        self._s3 = s3
        self._name = name

    def paths(self) -> set[str]:
        pages = self._s3.client.get_paginator("list_objects_v2").paginate(Bucket=self._name, Prefix="lake/")
        return {one["Key"].removeprefix("lake/") for page in pages for one in page.get("Contents", ())}

    def content(self, path: str) -> bytes | None:
        try:
            return self._s3.content(self._name, f"lake/{path}")
        except self._s3.client.exceptions.NoSuchKey:
            return None

    def delete(self, path: str) -> None:
        self._s3.client.delete_object(Bucket=self._name, Key=f"lake/{path}")

    def store(self) -> FileStore:
        return open_store(self.root, self._s3.options())
