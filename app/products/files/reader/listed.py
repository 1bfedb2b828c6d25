"""The files of a listing, divided by references while these are read."""

from __future__ import annotations

from app.products.files.orphans import LogBegin, OrphanStanding, Stored
from app.products.files.reader.findings import FileTally, Missing
from app.products.files.reader.references import Located, ReferenceReading

_MOST_SUSPECTS = 1_000


class Listed:
    """Keep the files without a reference so far, and count the others.

    suspects: references whose file should be in the listing but is not; `unchecked`: the number of further ones.
    begins: the begin of each partition.
    """

    def __init__(self, listed: dict[str, Stored], *, oldest_ms: int) -> None:
        self.unreferenced = listed
        self.tallies = {standing: FileTally() for standing in OrphanStanding}
        self.reading = ReferenceReading(topic="")
        self.begins: list[LogBegin] = []
        self.suspects: list[Missing] = []
        self.unchecked = 0
        self._oldest_ms = oldest_ms

    def keep(self, path: str, _place: str) -> None:
        """Keep a file that an invalid reference names."""
        stored = self.unreferenced.pop(path, None)
        if stored is not None:
            self.tallies[OrphanStanding.REFERENCED].add(stored)

    def add(self, located: Located, *, is_ours: bool) -> None:
        reference = located.reference
        stored = self.unreferenced.pop(reference.path, None)
        if stored is not None:
            self.tallies[OrphanStanding.REFERENCED].add(stored)
        if not is_ours:
            return
        self.reading.references += 1
        # A young file may have been uploaded after the listing.
        if stored is None and reference.uploaded_at_ms < self._oldest_ms:
            if len(self.suspects) < _MOST_SUSPECTS:
                self.suspects.append(Missing(path=reference.path, place=located.place))
            else:
                self.unchecked += 1
