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
    """A selection of files: one of the given values for each named partition column."""

    columns: Mapping[str, Collection[str]] = {}

    def has(self, reference: FileReference) -> bool:
        """Return true if the file is selected. A file without the column is not."""
        return all(reference.partition.get(name) in values for name, values in self.columns.items())


class Stores:
    """Open the stores of references, each once.

    Args:
        roots: the allowed roots; None: any. Every producer of a sink topic can write any root into it.
        options: for s3fs (app/products/files/reader/store.py).
    """

    def __init__(self, *, roots: Collection[str] | None = None, options: Mapping[str, Any] | None = None) -> None:
        self._roots = roots
        self._options = options
        self._opened: dict[str, FileStore] = {}

    def of(self, located: Located) -> FileStore:
        """Return the store of a reference.

        Raises InvalidError for a root that is not allowed, NoStoreError for one that is not supported.
        """
        root = located.reference.root
        if root not in self._opened:
            if self._roots is not None and root not in self._roots:
                allowed = ", ".join(sorted(self._roots))
                raise InvalidError(
                    f"the reference at {located.place} names the root {root}, which is none of this pipeline's: "
                    f"{allowed}"
                )
            self._opened[root] = open_store(root, self._options)
        return self._opened[root]


def records(located: Located, store: FileStore) -> Iterator[dict[str, Any]]:
    """Return the records of one file as JSON values.

    Size and SHA-256 are verified before the first record.

    Raises:
        FileDamagedError: the file is missing or differs, with the names of file and reference.
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
    """Return the records of all selected files, each with its file's reference.

    Schemas may differ between files: each record has the fields of its own.

    Args:
        `heard`: called with each reference before the file's records.

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
