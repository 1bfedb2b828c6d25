"""The content of a referenced file: verified as a whole, then its records as JSON values."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

import fastavro

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.reading_back import json_values
from app.core.wire.bounded_avro import BoundedContainer
from app.core.wire.file_references import FileReference

_BLOCK = 1 << 20


class NotAsReferencedError(Exception):
    """The file is missing, or differs from its reference. The message follows its name: `is not …`."""


def fetched(
    reference: FileReference, open_path: Callable[[str], BinaryIO], *, in_memory_bytes: int = 32 << 20
) -> BinaryIO:
    """Return the content of a file, once its size and SHA-256 are those of its reference: the verified bytes are read.

    Close it after use.

    Args:
        open_path: opens a path below the reference's root; raises FileNotFoundError if there is no file.
        in_memory_bytes: a larger file is copied to a temporary one.

    Raises NotAsReferencedError, and the errors of `open_path` and of its file.
    """
    spool = tempfile.SpooledTemporaryFile(max_size=in_memory_bytes)  # noqa: SIM115 - the caller's
    try:
        _fetch(reference, open_path, spool)
    except FileNotFoundError as error:
        spool.close()
        raise NotAsReferencedError("is not there") from error
    except BaseException:
        spool.close()
        raise
    spool.seek(0)
    return cast("BinaryIO", spool)


def _fetch(
    reference: FileReference, open_path: Callable[[str], BinaryIO], into: tempfile.SpooledTemporaryFile[bytes]
) -> None:
    digest, size = hashlib.sha256(), 0
    with open_path(reference.path) as opened:
        while block := opened.read(_BLOCK):
            digest.update(block)
            size += len(block)
            into.write(block)
    if size != reference.size_bytes:
        raise NotAsReferencedError(f"has {size} bytes, not {reference.size_bytes}")
    if digest.hexdigest() != reference.sha256:
        raise NotAsReferencedError(f"has the SHA-256 {digest.hexdigest()}, not {reference.sha256}")


def records(reference: FileReference, content: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield the records of a fetched file, with their original names.

    Raises NotAsReferencedError, maybe after some of them: it is not readable Avro, or has more or fewer records.
    """
    count = 0
    try:
        # Only inflated blocks are bounded here; the file itself is as large as its reference says.
        reading = fastavro.reader(cast("BinaryIO", BoundedContainer(content)))
        restored = json_values(cast("AvroSchema", reading.writer_schema))
        for found in reading:
            record = cast("dict[str, Any]", found)
            count += 1
            if count > reference.records:
                break
            yield record if restored is None else restored(record)
    except Exception as error:  # the border to fastavro and its codecs, each of which has errors of its own
        # The bytes are those that were written: no damage in the store, but not readable Avro either.
        raise NotAsReferencedError(f"cannot be read as Avro after {count} records: {error}") from error
    if count != reference.records:
        found_ = f"more than {reference.records}" if count > reference.records else f"{count}"
        raise NotAsReferencedError(f"has {found_} records, not {reference.records}")
