"""One bucket of ids, and the comparison of their outputs with the outputs that their inputs require.

Four numbers are counted for each id and sink: required and found outputs, each in the window and in its padding. The
padding of the source is twice as wide as that of the sinks. If no output is further from its input than the padding,
then

    an input of the window has its output in the window or the padding          window required  <= all found
    an output of the window or the padding has its input in what was read       all found        <= all required

An id that breaks the first has lost outputs, one that breaks the second has too many. This holds for any ids, even
repeated ones. A surplus output is reported where its input lies in the window (duplicated), one without any input where
it lies in the window itself. So neighbouring windows report each of them once.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from app.products.audits.result import IdFinding
from workers.audit.rows import FOUND, ROW, place_of

_FIELD = 40
"""Bits of each of the four numbers, packed into one: Python adds a large number as quickly as a small one."""
_MASK = (1 << _FIELD) - 1
# By the two low bits of a row's word: its side, and whether it lies in the window.
_WEIGHTS = (1 << _FIELD, 1 << 3 * _FIELD, 1, 1 << 2 * _FIELD)
_CLEAN = _WEIGHTS[2] + _WEIGHTS[3]
_IN_MEMORY_BYTES = 64 * 1024 * 1024
_HASH = slice(14)


class IdCounts(NamedTuple):
    """The counts of one id at one sink; `lost` and the others in records."""

    asked_window: int
    asked: int
    found_window: int
    found: int

    @classmethod
    def unpack(cls, packed: int) -> IdCounts:
        asked_window = packed & _MASK
        found_window = packed >> 2 * _FIELD & _MASK
        return cls(
            asked_window,
            asked_window + (packed >> _FIELD & _MASK),
            found_window,
            found_window + (packed >> 3 * _FIELD),
        )

    @property
    def missing(self) -> int:
        return max(0, self.asked_window - self.found)

    @property
    def surplus(self) -> int:
        """Outputs without an input of their own, of an id that the window requires or that lies in it."""
        if self.asked_window:
            return max(0, self.found - self.asked)
        return self.found_window if not self.asked else 0

    @property
    def late(self) -> int:
        return max(0, min(self.asked_window, self.found) - self.found_window)


class Deviation(msgspec.Struct, frozen=True, kw_only=True):
    """One id at one sink. `words` are the places of its first inputs and outputs, as rows have them."""

    finding: IdFinding
    key: bytes
    sink: int
    expected: int
    found: int
    records: int
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


class BucketReport(msgspec.Struct, kw_only=True):
    """The findings among the ids of one bucket.

    ids, records: by finding. partitions: by finding, of the partition's number, in records. deviations: the first of
    each finding, by place.
    """

    repeated: int = 0
    undelivered: int = 0
    ids: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    records: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    partitions: dict[str, dict[int, int]] = msgspec.field(default_factory=dict[str, dict[int, int]])
    deviations: list[Deviation] = msgspec.field(default_factory=list[Deviation])


def compare(pieces: Iterable[bytes], *, letters: int | None, examples: int, places: int) -> BucketReport:
    """Judge all ids of a bucket.

    Rows are read twice: for the numbers, then for the places of the few ids with a finding. One number for each id is
    kept in memory; the rows lie in a temporary file once they are many.

    Args:
        letters: the number of the sink that is only for dead letters, if there is one. An output that is missing
            elsewhere and is a surplus there was refused by the brokers, and is not lost.
    """
    report = BucketReport()
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as kept:
        counted: dict[bytes, int] = {}
        get = counted.get
        weights = _WEIGHTS
        for piece in pieces:
            kept.write(piece)
            for key, word in ROW.iter_unpack(piece):
                counted[key] = get(key, 0) + weights[word & 3]
        deviating: dict[bytes, IdCounts] = {}
        for key, packed in counted.items():
            if packed == _CLEAN:
                continue
            one = IdCounts.unpack(packed)
            report.repeated += one.asked_window > 1
            is_letter = int.from_bytes(key[14:], "little") == letters
            if one.missing or one.surplus or one.late or (is_letter and one.found > one.asked):
                deviating[key] = one
        counted.clear()
        if deviating:
            kept.seek(0)
            _judge(report, deviating, _places(_rows_in(kept), deviating), letters, examples=examples, places=places)
    return report


def _rows_in(kept: tempfile.SpooledTemporaryFile[bytes]) -> Iterator[tuple[bytes, int]]:
    while chunk := kept.read(ROW.size * 100_000):
        yield from ROW.iter_unpack(chunk)


def _places(rows: Iterable[tuple[bytes, int]], deviating: dict[bytes, IdCounts]) -> dict[bytes, list[int]]:
    """Every row of a deviating id, in order of its place."""
    found: defaultdict[bytes, list[int]] = defaultdict(list)
    for key, word in rows:
        if key in deviating:
            found[key].append(word)
    for words in found.values():
        words.sort()
    return found


def _judge(
    report: BucketReport,
    deviating: dict[bytes, IdCounts],
    words: dict[bytes, list[int]],
    letters: int | None,
    *,
    examples: int,
    places: int,
) -> None:
    undelivered = _undelivered(deviating, letters)
    deviations: defaultdict[IdFinding, list[Deviation]] = defaultdict(list)
    for key, one in deviating.items():
        inputs = [word for word in words[key] if not word & FOUND]
        outputs = [word for word in words[key] if word & FOUND]
        refused = undelivered.get(key, 0)
        sink = int.from_bytes(key[14:], "little")
        for finding, number in (
            (IdFinding.LOST, one.missing - (0 if sink == letters else refused)),
            (
                IdFinding.DUPLICATED if one.asked else IdFinding.UNEXPECTED,
                one.surplus - (refused if sink == letters else 0),
            ),
            (IdFinding.LATE, one.late),
        ):
            if number <= 0:
                continue
            _tally(report, finding, number, inputs, outputs, asked=one.asked)
            several = deviations[finding]
            several.append(
                Deviation(
                    finding=finding,
                    key=key,
                    sink=sink,
                    expected=one.asked,
                    found=one.found,
                    records=number,
                    inputs=tuple(inputs[:places]),
                    outputs=tuple(outputs[:places]),
                )
            )
            if len(several) > 2 * examples:
                # When everything is lost, not all of it is held.
                _keep_first(several, examples)
        if sink == letters:
            report.undelivered += refused
    for several in deviations.values():
        _keep_first(several, examples)
        report.deviations += several


def _keep_first(deviations: list[Deviation], number: int) -> None:
    deviations.sort(key=first_place)
    del deviations[number:]


def first_place(deviation: Deviation) -> int:
    """The order of deviations: the first input, else the first output."""
    return min(deviation.inputs or deviation.outputs)


def _tally(
    report: BucketReport, finding: IdFinding, number: int, inputs: list[int], outputs: list[int], *, asked: int
) -> None:
    """Count the id, and its records at their partitions: missing ones at the input's, others at their own."""
    report.ids[finding] = report.ids.get(finding, 0) + 1
    report.records[finding] = report.records.get(finding, 0) + number
    partitions = report.partitions.setdefault(finding, {})
    if finding is IdFinding.LOST:
        placed = inputs[:1] * number
    elif finding is IdFinding.DUPLICATED:
        # The first outputs are the required ones.
        placed = outputs[asked:][:number]
    elif finding is IdFinding.UNEXPECTED:
        placed = outputs[:number]
    else:
        placed = outputs[-number:]
    for word in placed:
        at, _ = place_of(word)
        partitions[at] = partitions.get(at, 0) + 1


def _undelivered(deviating: dict[bytes, IdCounts], letters: int | None) -> dict[bytes, int]:
    """The number of a key's outputs that are missing at their sink and among the dead letters, for both keys."""
    if letters is None:
        return {}
    refused: dict[bytes, int] = {}
    missing: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for key, one in deviating.items():
        if one.missing:
            missing[key[_HASH]].append(key)
    for key, one in deviating.items():
        left = one.found - one.asked
        if int.from_bytes(key[14:], "little") != letters or left <= 0:
            continue
        for other in missing[key[_HASH]]:
            taken = min(left, deviating[other].missing)
            left -= taken
            refused[other] = refused.get(other, 0) + taken
            refused[key] = refused.get(key, 0) + taken
    return refused
