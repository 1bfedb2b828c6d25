"""The messages of a file sink: one for each file, in the transaction that commits the file's input offsets.

A reader with `read_committed` that opens only the referenced files sees every record once. The value is JSON
(docs/file-reference.schema.json is its schema); the key is the path, so that a compacted topic keeps each.
"""

from __future__ import annotations

from typing import Any

import msgspec

FORMAT = "fenceline.file/1"
_FORMATS = "fenceline.file/"
"""The prefix of the formats of all versions."""


class InputRange(msgspec.Struct, frozen=True, kw_only=True):
    """For one input partition: the lowest and the highest offset whose output is in the file, both inclusive."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int


class FileReference(msgspec.Struct, frozen=True, kw_only=True, rename={"format_": "format"}):
    """One uploaded and verified file.

    path: below the pipeline's root; it is never used again.
    sha256: of the whole file, in hexadecimal.
    partition: the value of each partition column, by name.
    inputs: the input records in it, by topic and partition.
    schema: the Avro schema of all of its records; fingerprint: SHA-256 of its Parsing Canonical Form.
    attempt, checkpoint: the task's attempt that wrote it, and the number of its checkpoint, counted from 1.
    opened_at_ms, closed_at_ms, uploaded_at_ms: the time of its first record, of its last one, and of its verified
        upload.
    """

    path: str
    root: str
    size_bytes: int
    records: int
    sha256: str
    codec: str
    partition: dict[str, str]
    inputs: tuple[InputRange, ...]
    schema: dict[str, Any]
    fingerprint: str
    pipeline: str
    transactional_id: str
    attempt: str
    checkpoint: int
    opened_at_ms: int
    closed_at_ms: int
    uploaded_at_ms: int
    format_: str = FORMAT


def encode(reference: FileReference) -> bytes:
    """Return the value of its message."""
    return msgspec.json.encode(reference)


def decode(value: bytes) -> FileReference:
    """Raises ValueError (as those of msgspec are) for another value, or for an unknown format."""
    try:
        found = msgspec.json.decode(value, type=FileReference)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    if found.format_ != FORMAT:
        raise ValueError(f"a reference of format {found.format_!r}; this version reads {FORMAT!r}")
    return found


class UnreadClaim(msgspec.Struct, frozen=True):
    """A message that claims to be a reference and cannot be read by this version.

    format_: its claimed format; empty: unknown. path: of the one file that it names; None: unknown.
    """

    format_: str
    path: str | None


class _Claim(msgspec.Struct, rename={"format_": "format"}):
    format_: Any = None
    path: Any = None


def unread_claim(value: bytes) -> UnreadClaim | None:
    """Return whether a value that `decode` refuses may be a reference, as one of a newer version is.

    Readers skip it. The collection of orphans must not.
    """
    if _FORMATS.encode() not in value:
        return None
    try:
        found = msgspec.json.decode(value, type=_Claim)
    except RecursionError:
        return UnreadClaim("", None)
    except ValueError:
        return None
    if not isinstance(found.format_, str) or not found.format_.startswith(_FORMATS):
        return None
    # The meaning of `path` in another version, and the number of its files, are unknown.
    is_known = found.format_ == FORMAT and isinstance(found.path, str)
    return UnreadClaim(found.format_, found.path if is_known else None)
