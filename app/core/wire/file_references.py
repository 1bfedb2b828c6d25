"""What a file sink writes to its topic: one message for each file, in the transaction that commits what was read for
it.

Whoever reads with `read_committed` and opens only what these name sees every record once. The value is JSON
(docs/file-reference.schema.json is its schema); the key is the path, so that a compacted topic keeps each.
"""

from __future__ import annotations

from typing import Any

import msgspec

FORMAT = "fenceline.file/1"
_FORMATS = "fenceline.file/"
"""What the formats of all versions begin with."""


class InputRange(msgspec.Struct, frozen=True, kw_only=True):
    """Of one input partition: the lowest and the highest offset whose output is in the file, both in it."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int


class FileReference(msgspec.Struct, frozen=True, kw_only=True, rename={"format_": "format"}):
    """One uploaded and verified file.

    path: below the pipeline's root; it is never used again.
    sha256: of the whole file, in hexadecimal.
    partition: the value of each partition column, by name.
    inputs: which records of which input partitions are in it, by topic and partition.
    schema: the Avro schema that all of its records have; fingerprint: SHA-256 of its Parsing Canonical Form.
    attempt, checkpoint: which attempt of the task wrote it, and in which of its checkpoints, counted from 1.
    opened_at_ms, closed_at_ms, uploaded_at_ms: when its first record came, when it got no more, when the store had all
        of it and that was verified.
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
    """The value of its message."""
    return msgspec.json.encode(reference)


def decode(value: bytes) -> FileReference:
    """Raises ValueError (those of msgspec are) when it is none, or of a format that is not known here."""
    try:
        found = msgspec.json.decode(value, type=FileReference)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    if found.format_ != FORMAT:
        raise ValueError(f"a reference of format {found.format_!r}; this version reads {FORMAT!r}")
    return found


class UnreadClaim(msgspec.Struct, frozen=True):
    """A message that says it is a reference and is none that can be read here.

    format_: what it says it is; empty: not even that is known. path: of the one file that it names; None: not known.
    """

    format_: str
    path: str | None


class _Claim(msgspec.Struct, rename={"format_": "format"}):
    format_: Any = None
    path: Any = None


def unread_claim(value: bytes) -> UnreadClaim | None:
    """Of what `decode` refuses: whether it may be a reference all the same, as one of a newer version is.

    Readers pass it over. Whoever deletes what nobody refers to must not.
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
    # What another version means by `path`, and whether it names more, is not known.
    is_known = found.format_ == FORMAT and isinstance(found.path, str)
    return UnreadClaim(found.format_, found.path if is_known else None)
