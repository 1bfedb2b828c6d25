"""The effect of a new checkpoint: records that a query reads again, or never reads."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import StartPosition
from app.kit.words import number


class StartOverEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a new checkpoint on the source records, in offsets; markers of transactions count, too.

    read_again: below the end of the newest committed batch. skipped: from there on, and never read.
    """

    read_again: int
    skipped: int
    sentences: tuple[str, ...]


def start_over_effect(
    *,
    has_state: bool,
    start_position: StartPosition,
    committed: Mapping[Partition, int],
    begins: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> StartOverEffect:
    """Return the effect of starting over.

    A query without state continues at the end of its newest committed batch. The state of the others was in the old
    checkpoint, so they read again from their start position.

    committed: end of the newest committed batch. begins, ends: log start and end offset of each source partition. A
    partition without a committed offset is new, and begins at its log start.
    """
    again = skipped = 0
    for partition, begin in begins.items():
        done = committed.get(partition, begin)
        if has_state and start_position is StartPosition.LATEST:
            start = ends[partition]
        elif has_state:
            start = begin
        else:
            start = max(done, begin)
        again += max(0, done - start)
        skipped += max(0, start - done)
    return StartOverEffect(read_again=again, skipped=skipped, sentences=tuple(_sentences(has_state, again, skipped)))


def _sentences(has_state: bool, again: int, skipped: int) -> list[str]:
    told = ["Nothing is read again." if not again else f"{_records(again)} are read again."]
    if again:
        told.append("Their rows are written a second time: delete them first, or use another sink topic.")
    if skipped:
        told.append(f"{_records(skipped)} are never read.")
    if has_state:
        told.append("The state begins empty: windows whose records are not read again are incomplete.")
    return told


def _records(offsets: int) -> str:
    return f"At most {number(offsets)} record{'' if offsets == 1 else 's'}"
