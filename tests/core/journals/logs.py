"""Logs that a test writes batch by batch, and ranges of them as a broker would return."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.core.journals.log_entries import EntryState, entries_of, named
from app.core.journals.log_look import AbortedTransaction, LogBounds, LogLook
from app.core.journals.record_batch import MarkerType, RecordBatch
from app.products.partition_log.service import PartitionLog
from tests.core.journals.batches import batch_of, marker


@dataclass
class WrittenLog:
    """The written batches, and the true outcome of each, by the definition of a transaction."""

    batches: list[RecordBatch] = field(default_factory=list[RecordBatch])
    truth: list[EntryState] = field(default_factory=list[EntryState])
    aborted: list[tuple[AbortedTransaction, int]] = field(default_factory=list[tuple[AbortedTransaction, int]])
    _open: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def plain(self, *, records: int = 1) -> None:
        self.batches.append(batch_of([(b"k", b"v")] * records, base_offset=self.end))
        self.truth.append(EntryState.PLAIN)

    def data(self, producer_id: int, *, epoch: int = 0, records: int = 1) -> None:
        self._open.setdefault(producer_id, []).append(len(self.batches))
        self.batches.append(
            batch_of(
                [(b"k", b"v")] * records,
                base_offset=self.end,
                producer_id=producer_id,
                producer_epoch=epoch,
                is_transactional=True,
            )
        )
        self.truth.append(EntryState.OPEN)

    def mark(self, producer_id: int, kind: MarkerType, *, epoch: int = 0) -> None:
        at = self.end
        indices = self._open.pop(producer_id, [])
        for index in indices:
            self.truth[index] = EntryState.COMMITTED if kind is MarkerType.COMMIT else EntryState.ABORTED
        if indices and kind is MarkerType.ABORT:
            self.aborted.append((AbortedTransaction(producer_id, self.batches[indices[0]].base_offset), at))
        self.batches.append(marker(kind, base_offset=at, producer_id=producer_id, producer_epoch=epoch))
        self.truth.append(EntryState.MARKER)

    @property
    def last_stable_offset(self) -> int:
        return min((self.batches[indices[0]].base_offset for indices in self._open.values()), default=self.end)

    def look(self, first: int = 0, after: int | None = None, *, log_starts_at: int = 0) -> LogLook:
        """The batches of these indices, and a broker's answers about them."""
        batches = tuple(self.batches[first:after])
        start = self.batches[first].base_offset if first < len(self.batches) else self.end
        next_offset = batches[-1].last_offset + 1 if batches else start
        decided_until = min(next_offset, self.last_stable_offset)
        return LogLook(
            start=start,
            next_offset=next_offset,
            bounds=LogBounds(
                first_offset=log_starts_at, last_stable_offset=self.last_stable_offset, high_watermark=self.end
            ),
            batches=batches,
            aborted=frozenset(
                listed for listed, last in self.aborted if last >= start and listed.first_offset < decided_until
            ),
            decided_until=decided_until,
        )


def taken_over(topic: str) -> PartitionLog:
    """A producer's batch, the marker of its takeover, and two records of the next producer; the last are open."""
    written = WrittenLog()
    written.data(7, epoch=5)
    written.mark(7, MarkerType.ABORT, epoch=6)
    written.data(7, epoch=7, records=2)
    look = written.look()
    return PartitionLog(
        topic=topic,
        partition=0,
        bounds=look.bounds,
        start=0,
        next_offset=look.next_offset,
        is_at_end=True,
        entries=named(entries_of(look), {7: "payments"}),
    )
