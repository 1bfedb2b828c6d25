"""The root of a file sink: the supported addresses, and the reason against any other."""

from __future__ import annotations

import re

SCHEMES = ("file", "s3")
"""A folder on every host that runs a task, and Amazon S3 or a store with its API."""
MAX_LENGTH = 400
MAX_KEY_LENGTH = 1_024
"""The longest key of an object in S3, after the bucket."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.ASCII | re.DOTALL)
_SEGMENT = re.compile(r"[A-Za-z0-9._=+-]+", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_OTHERS = {
    "gs": "Google Cloud Storage takes gcsfs",
    "gcs": "Google Cloud Storage takes gcsfs",
    "az": "Azure takes adlfs",
    "abfs": "Azure takes adlfs",
    "abfss": "Azure takes adlfs",
    "hdfs": "HDFS takes pyarrow with libhdfs",
    "sftp": "SFTP takes paramiko",
}
"""The libraries that fsspec needs for stores that are not supported yet."""


def is_local(root: str) -> bool:
    """Return whether it is a folder of the host that writes."""
    return root.startswith("file://")


def key_prefix(root: str) -> str | None:
    """Return the prefix of its files' keys, after the bucket; None for a folder."""
    return None if is_local(root) else root.removeprefix("s3://").partition("/")[2]


def problem(root: str) -> str | None:
    """Return why files cannot be written below `root`; None if they can. Its existence is not checked."""
    if not root:
        return "Files need a root: a folder such as `file:///data/files`, or `s3://bucket/prefix`"
    if len(root) > MAX_LENGTH:
        return f"The root has {len(root)} characters; it may have {MAX_LENGTH}"
    match = _SCHEME.fullmatch(root)
    if match is None:
        return f"`{root[:80]}` has no scheme; write `file:///data/files` for a folder, or `s3://bucket/prefix`"
    scheme, rest = match[1], match[2]
    if scheme not in SCHEMES:
        return _other_scheme(scheme)
    place, slash, path = rest.partition("/")
    if "@" in place or ":" in place:
        return (
            "A root names neither credentials nor a port: revisions are kept and shown. Credentials and the endpoint "
            "of a store come from the environment of the executors"
        )
    return _folder_problem(place, path) if scheme == "file" else _bucket_problem(place, path if slash else None)


def _other_scheme(scheme: str) -> str:
    if scheme.lower() in SCHEMES:
        return f"Write the scheme in lower case: `{scheme.lower()}://`"
    if scheme in ("s3a", "s3n"):
        return f"`{scheme}://` is Hadoop's name for it; write `s3://`"
    more = f" ({_OTHERS[scheme]} in the executors' Python, and a release that allows it)" if scheme in _OTHERS else ""
    return f"This release writes to `file://` and `s3://`, not to `{scheme}://`{more}"


def _folder_problem(host: str, path: str) -> str | None:
    if host:
        return f"After `file://` comes a host, here `{host[:80]}`; a folder has three slashes: `file:///data/files`"
    if not path:
        return "Name a folder below `/`, such as `file:///data/files`"
    return _path_problem(path)


def _bucket_problem(bucket: str, path: str | None) -> str | None:
    if not _BUCKET.fullmatch(bucket) or ".." in bucket:
        return (
            f"`{bucket[:80]}` is not a bucket's name: 3 to 63 lower-case letters, digits, `-` and `.`, "
            "a letter or digit at both ends"
        )
    return None if path is None else _path_problem(path)


def _path_problem(path: str) -> str | None:
    if path == "" or path.endswith("/"):
        return "Leave out the slash at the end of the root"
    for segment in path.split("/"):
        if segment in ("", ".", ".."):
            return f"The root must not contain `{segment}` between its slashes: one folder has one name"
        if not _SEGMENT.fullmatch(segment):
            return f"`{segment[:80]}` in the root has more than letters, digits, `.`, `_`, `-`, `=` and `+` of ASCII"
    return None
