"""References to files as an audit sees them: the records of a topic that are references, and those that it reads."""

from __future__ import annotations

import msgspec
from confluent_kafka import Message

from app.core.wire import file_references
from app.core.wire.file_references import FileReference
from app.products.audits.specification import AuditSpecification


def partition_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


class ReferenceScope(msgspec.Struct, frozen=True, kw_only=True):
    """All that were written in the window and its padding, and of later ones those that name an input of the window.

    So no finding depends on the sink's own statements about its files; they only add files.

    window: of each source partition, by name, its offsets from and up to.
    late_from: of each partition of references, by name, the first offset behind the padding.
    """

    window: dict[str, tuple[int, int]]
    late_from: dict[str, int]

    def takes(self, reference: FileReference, *, partition: str, offset: int) -> bool:
        return offset < self.late_from.get(partition, offset + 1) or self.names_window(reference)

    def names_window(self, reference: FileReference) -> bool:
        for one in reference.inputs:
            start, end = self.window.get(partition_name(one.topic, one.partition), (0, 0))
            if start < end and one.first_offset < end and one.last_offset >= start:
                return True
        return False


def reference_of(message: Message, specification: AuditSpecification) -> FileReference | None:
    """The reference in a record; None: it is another pipeline's. Raises ValueError for other records."""
    value = message.value()
    if value is None:
        raise ValueError("no value")
    reference = file_references.decode(value)
    return reference if reference.pipeline == specification.pipeline else None
