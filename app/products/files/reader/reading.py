"""The records of the files that committed references name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from app.core.wire import file_contents
from app.core.wire.file_contents import NotAsReferencedError
from app.core.wire.file_references import FileReference
from app.kit.errors import InvalidError
from app.products.files.reader.errors import FileDamagedError
from app.products.files.reader.references import Located
from app.products.files.reader.store import FileStore, open_store


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Files by the values of their partition columns: of each named column one of its values."""

    columns: Mapping[str, Collection[str]] = {}

    def has(self, reference: FileReference) -> bool:
        """A file without the column, from before it was one, is not in the selection."""
        return all(reference.partition.get(name) in values for name, values in self.columns.items())


class Stores:
    """Opens the stores that references name, each once.

    Args:
        roots: only these; None: whatever a reference says. Who may write to a sink topic may write any root into it.
        options: for s3fs (app/products/files/reader/store.py).
    """

    def __init__(self, *, roots: Collection[str] | None = None, options: Mapping[str, Any] | None = None) -> None:
        self._roots = roots
        self._options = options
        self._opened: dict[str, FileStore] = {}

    def of(self, located: Located) -> FileStore:
        """Raises InvalidError for a root that is not among those allowed, NoStoreError for one that is no store."""
        root = located.reference.root
        if root not in self._opened:
            if self._roots is not None and root not in self._roots:
                allowed = ", ".join(sorted(self._roots))
                raise InvalidError(
                    f"the reference at {located.place} names a file below {root}, where this pipeline never wrote: "
                    f"it wrote to {allowed}"
                )
            self._opened[root] = open_store(root, self._options)
        return self._opened[root]


def records(located: Located, store: FileStore) -> Iterator[dict[str, Any]]:
    """The records of one file, as JSON has them.

    Size and SHA-256 are verified before the first is given: nothing of a file that is not the one referenced is.

    Raises:
        FileDamagedError: the file is missing, or another one, or holds another number of records. It names both the
            file and the reference.
        StoreUnavailableError: the store does not answer.
    """
    reference = located.reference
    try:
        with file_contents.fetched(reference, store.open) as content:
            yield from file_contents.records(reference, content)
    except NotAsReferencedError as error:
        raise _damaged(located, str(error)) from error


def all_records(
    references: Iterable[Located],
    stores: Stores,
    selection: Selection | None = None,
    *,
    heard: Callable[[Located], None] = lambda _: None,
) -> Iterator[tuple[Located, dict[str, Any]]]:
    """The records of all files of the selection, each with the reference that names its file.

    Schemas may differ from file to file: each record has the fields of its own.

    Args:
        heard: told of each file before its records.

    Raises as `records` and `Stores.of` do.
    """
    wanted = selection or Selection()
    for located in references:
        if wanted.has(located.reference):
            heard(located)
            for record in records(located, stores.of(located)):
                yield located, record


def _damaged(located: Located, what: str) -> FileDamagedError:
    reference = located.reference
    return FileDamagedError(f"{reference.root}/{reference.path}, referenced at {located.place}, {what}")
