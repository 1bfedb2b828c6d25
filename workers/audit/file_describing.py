"""The files of the few ids that are shown, and their text where no input has it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from confluent_kafka import Message

from app.core.wire import file_contents
from app.core.wire.file_contents import NotAsReferencedError
from app.core.wire.file_references import FileReference
from app.products.audits.result import RecordPlace
from app.products.audits.specification import AuditSpecification
from workers.audit.ids import id_in_file, shown
from workers.audit.reading import AuditReadError
from workers.audit.references import reference_of
from workers.audit.rows import hash_of
from workers.audit.stores import FileStores

_Found = tuple[RecordPlace, Message | None]


class FileText:
    """A file that is gone meanwhile leaves an id without its text; the finding is valid without it."""

    def __init__(self, specification: AuditSpecification, stores: FileStores) -> None:
        self._specification = specification
        self._stores = stores

    def named(self, place: RecordPlace, message: Message | None) -> _Found:
        """A reference's place with the path of its file."""
        reference = self._reference(message)
        return (place if reference is None else msgspec.structs.replace(place, file=reference.path)), message

    def text(self, digest: bytes, outputs: Sequence[_Found]) -> str | None:
        """The id that has this hash, from the first of these files that has it."""
        find = id_in_file(self._specification.id)
        for _, message in outputs:
            reference = self._reference(message)
            if reference is None:
                continue
            try:
                with self._stores.fetch(reference) as content:
                    for record in file_contents.records(reference, content):
                        found = find(record)
                        if found is not None and hash_of(found) == digest:
                            return shown(found)
            except (NotAsReferencedError, AuditReadError):
                continue
        return None

    def _reference(self, message: Message | None) -> FileReference | None:
        if message is None:
            return None
        try:
            return reference_of(message, self._specification)
        except ValueError:
            return None
