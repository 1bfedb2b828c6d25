"""The addresses under which files can be written."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.pipelines.file_root import MAX_LENGTH, is_local, problem


@pytest.mark.parametrize(
    "root",
    [
        "file:///data",
        "file:///var/lib/fenceline/files-1",
        "file:///home/u/.cache/a=b+c",
        "s3://abc",
        "s3://a.bucket-1/prefix/deeper",
        "s3://" + "b" * 63,
    ],
)
def test_a_folder_or_a_bucket_is_a_root(root: str) -> None:
    assert problem(root) is None
    assert is_local(root) is root.startswith("file")


@pytest.mark.parametrize(
    ("root", "part"),
    [
        ("", "need a root"),
        ("/data/files", "has no scheme; write `file:///data/files`"),
        ("data", "has no scheme"),
        ("file:/data", "has no scheme"),
        ("file://data/files", "here `data`; a folder has three slashes"),
        ("file:///", "a folder below `/`"),
        ("file://", "a folder below `/`"),
        ("file:///data/", "Leave out the slash"),
        ("file:///data/../etc", "not contain `..` between"),
        ("file:///./data", "not contain `.` between"),
        ("file:///data//files", "not contain `` between"),
        ("file:///data/my files", "`my files` in the root has more than"),
        ("file:///data/%2e%2e", "has more than"),
        ("file:///data/ü", "has more than"),
        ("file:///data\n", "has more than"),
        ("file:///data?x=1", "has more than"),
        ("S3://bucket", "in lower case: `s3://`"),
        ("s3a://bucket/x", "Hadoop's name for it; write `s3://`"),
        ("gs://bucket", "takes gcsfs in the executors' Python"),
        ("abfss://x/y", "takes adlfs"),
        ("http://host/x", "writes to `file://` and `s3://`, not to `http://`"),
        ("memory://x", "not to `memory://`"),
        ("s3://", "is not a bucket's name"),
        ("s3:///prefix", "is not a bucket's name"),
        ("s3://ab", "is not a bucket's name"),
        ("s3://Bucket", "is not a bucket's name"),
        ("s3://a..b", "is not a bucket's name"),
        ("s3://bucket-", "is not a bucket's name"),
        ("s3://" + "b" * 64, "is not a bucket's name"),
        ("s3://bucket/", "Leave out the slash"),
        ("s3://bucket/a/", "Leave out the slash"),
        ("s3://bucket/a#b", "has more than"),
        ("s3://key:secret@bucket/a", "names neither credentials nor a port"),
        ("s3://127.0.0.1:9000/bucket", "names neither credentials nor a port"),
        ("s3://bucket/" + "a" * MAX_LENGTH, f"it may have {MAX_LENGTH}"),
    ],
)
def test_invalid_root_has_a_reason(root: str, part: str) -> None:
    assert part in (problem(root) or "")


def test_a_secret_in_a_root_is_not_repeated() -> None:
    assert "hunter2" not in (problem("s3://key:hunter2@bucket") or "")


@given(st.text(max_size=30) | st.from_regex(r"(file|s3)://[a-z0-9./=@: %?#-]{0,20}", fullmatch=True))
def test_a_root_is_an_address_that_means_the_same_however_it_is_read(root: str) -> None:
    if problem(root) is not None:
        return
    parts = urlsplit(root)
    assert parts.scheme in ("file", "s3")
    assert not parts.query
    assert not parts.fragment
    assert root == f"{parts.scheme}://{parts.netloc}{parts.path}"
    assert not {"", ".", ".."} & set(parts.path.split("/")[1:])
