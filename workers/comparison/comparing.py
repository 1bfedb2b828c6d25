"""One bucket of ids, and the comparison of both sides.

Rows are read for a sum over each id first, which shows whether both sides have equal records in the window. Then they
are read for the values of the other ids. A bounded size of values is held at once; the rows are read again for more.
The number of ids is bounded too: rows with more ids are split by the hash of their id, and each part is compared alone.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, cast

import msgspec

from app.products.audits.result import FieldTally, FieldValues, IdFinding
from workers.audit.comparing import BucketReport
from workers.comparison.fields import shown_name, shown_value
from workers.comparison.matching import Matched, NoIdError, match, newest
from workers.comparison.rows import BASELINE, HEAD, NO_PARTITION, OUTPUT, PADDING, WINDOW, Row, unpack

MOST_OF_AN_ID = 10_000
"""Records of one id; with more it identifies no record."""
MOST_FIELDS = 200
"""Fields with a count of their own; those beyond are counted together, for records whose keys never repeat."""
OTHER_FIELDS = "(other fields)"
_MOST_SHOWN = 20
_HELD_BYTES = 64 * 1024 * 1024
_HELD_IDS = 1_000_000
_SPOOLED_BYTES = 64 * 1024 * 1024
_SPLITS = 16
_HASH_BYTES, _OF_BUCKET = 14, 4
"""The bytes of a hash, and those that choose its bucket (rows.py); the next ones choose the splits."""
_OVERHEAD_BYTES = 250
"""Memory of an id beside its rows, approximately."""
_FIELD = 40
_MASK = (1 << _FIELD) - 1
_FINGERPRINTS = 1 << 64
_SIZE = 4 * _FIELD
_SUM = 5 * _FIELD
"""Four counts and the size in bytes below the sum of fingerprints, in one number."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules and bounds of a comparison.

    padding_ms: the largest difference of the times of one record.
    examples: kept for each finding. places: kept for each side of an example.
    keeps_last: the newest output of an id and a time replaces the others.
    held_bytes, held_ids: the size of values and the number of ids that are held at once, approximately.
    """

    tolerance: float
    padding_ms: int
    examples: int
    places: int
    keeps_last: bool = False
    held_bytes: int = _HELD_BYTES
    held_ids: int = _HELD_IDS


class Place(msgspec.Struct, frozen=True):
    """A record in a topic; `number`: of the partition."""

    number: int
    offset: int


class SideExample(msgspec.Struct, frozen=True, kw_only=True):
    """One id with a finding, without the names of its partitions. order: of the first record."""

    finding: IdFinding
    order: tuple[int, int, str]
    id: str
    expected: int
    found: int
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    baseline_file: str | None
    values: tuple[FieldValues, ...]


class SidesReport(msgspec.Struct, kw_only=True):
    """The findings of one bucket. fields: the different records by field. examples: the first of each finding."""

    findings: BucketReport
    fields: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    examples: list[SideExample] = msgspec.field(default_factory=list[SideExample])


def compare_sides(pieces: Iterable[bytes], rules: Rules) -> SidesReport:
    """Compare all ids of a bucket. pieces: packed rows.

    Raises NoIdError for an id with more than MOST_OF_AN_ID records, or with records that are too large to be held.
    """
    report = SidesReport(findings=BucketReport())
    _compare(report, pieces, rules, split_by=_OF_BUCKET)
    report.examples = first_examples(report.examples, rules.examples)
    return report


def _compare(report: SidesReport, pieces: Iterable[bytes], rules: Rules, *, split_by: int) -> None:
    """split_by: the byte of the hash that splits the rows if they have too many ids."""
    with ExitStack() as stack:
        kept = _spool(stack, _SPOOLED_BYTES)
        summed: dict[bytes, int] = {}
        for piece in pieces:
            kept.write(piece)
            if len(summed) <= rules.held_ids:
                _add(summed, piece)
        kept.seek(0)
        if len(summed) > rules.held_ids:
            summed.clear()
            for split in _splits(stack, kept, split_by):
                _compare(report, _rows_in(split), rules, split_by=split_by + 1)
            return
        sizes = {key: size for key, packed in summed.items() if (size := _size_unless_clean(packed))}
        summed.clear()
        if any(size > rules.held_bytes for size in sizes.values()):
            raise NoIdError(f"one id has records of more than {rules.held_bytes >> 20} MB: {_OTHER_ID}")
        for keys in _parts(sizes, most=rules.held_bytes):
            kept.seek(0)
            for packed in _rows_of(kept, keys).values():
                rows = unpack(packed)
                if rules.keeps_last:
                    rows = newest(rows)
                matched = match(rows, tolerance=rules.tolerance, padding_ms=rules.padding_ms)
                _count(report, rows, matched, rules)


_OTHER_ID = "compare by a field that identifies them"
"""Errors are without the id, which is a record's content."""


def _spool(stack: ExitStack, most: int) -> BinaryIO:
    return cast("BinaryIO", stack.enter_context(tempfile.SpooledTemporaryFile(max_size=most)))


def _splits(stack: ExitStack, kept: BinaryIO, by: int) -> list[BinaryIO]:
    """Return the rows in files, each with all rows of its ids."""
    files = [_spool(stack, _SPOOLED_BYTES // _SPLITS) for _ in range(_SPLITS)]
    for row in _rows_in(kept):
        files[row[by] % _SPLITS].write(row)
    for file in files:
        file.seek(0)
    return files


def _rows_in(kept: BinaryIO) -> Iterator[bytes]:
    """Yield packed rows."""
    while head := kept.read(HEAD.size):
        yield head + kept.read(HEAD.unpack(head)[-1])


def tallies(counts: Counter[str]) -> tuple[FieldTally, ...]:
    """Return the counts by field, highest first; at most MOST_FIELDS, and one of the others."""
    others = counts.pop(OTHER_FIELDS, 0)
    ordered = counts.most_common()
    others += sum(records for _, records in ordered[MOST_FIELDS:])
    shown = [*ordered[:MOST_FIELDS], *([(OTHER_FIELDS, others)] if others else [])]
    return tuple(FieldTally(field=name, records=records) for name, records in shown)


def first_examples(several: Iterable[SideExample], most: int) -> list[SideExample]:
    """Return the first of each finding, by place."""
    by_finding: defaultdict[IdFinding, list[SideExample]] = defaultdict(list)
    for one in several:
        by_finding[one.finding].append(one)
    order = list(IdFinding)
    return [
        one
        for finding in sorted(by_finding, key=order.index)
        for one in sorted(by_finding[finding], key=lambda example: example.order)[:most]
    ]


_WEIGHTS = {
    BASELINE | WINDOW: 1,
    OUTPUT | WINDOW: 1 << _FIELD,
    BASELINE | PADDING: 1 << 2 * _FIELD,
    OUTPUT | PADDING: 1 << 3 * _FIELD,
}


def _add(summed: dict[bytes, int], piece: bytes) -> None:
    """Add the rows of a piece to the sums."""
    at = 0
    while at < len(piece):
        digest, flags, _, _, _, fingerprint, length = HEAD.unpack_from(piece, at)
        # Equal records of the two sides add up to one multiple of the modulus.
        value = _FINGERPRINTS - fingerprint if flags & OUTPUT else fingerprint
        size = HEAD.size + length
        summed[digest] = summed.get(digest, 0) + _WEIGHTS[flags & 3] + (size << _SIZE) + (value << _SUM)
        at += size


def _size_unless_clean(packed: int) -> int:
    """Return the size of an id's records; 0 if its sides are equal, or it concerns other windows only.

    Raises NoIdError.
    """
    counts = [packed >> shift * _FIELD & _MASK for shift in range(4)]
    baseline, output, baseline_beside, output_beside = counts
    if not baseline and not output:
        return 0
    is_equal = baseline == output and not baseline_beside and not output_beside
    if is_equal and packed >> _SUM == baseline * _FINGERPRINTS:
        return 0
    if sum(counts) > MOST_OF_AN_ID:
        raise NoIdError(f"more than {MOST_OF_AN_ID:,} records have one id: {_OTHER_ID}")
    return packed >> _SIZE & _MASK


def _parts(sizes: dict[bytes, int], *, most: int) -> Iterator[set[bytes]]:
    """Yield sets of ids whose records take about `most` bytes."""
    part: set[bytes] = set()
    held = 0
    for key, size in sizes.items():
        if part and held + size + _OVERHEAD_BYTES > most:
            yield part
            part, held = set[bytes](), 0
        part.add(key)
        held += size + _OVERHEAD_BYTES
    if part:
        yield part


def _rows_of(kept: BinaryIO, keys: set[bytes]) -> dict[bytes, bytearray]:
    """Return the packed rows of these ids."""
    found: defaultdict[bytes, bytearray] = defaultdict(bytearray)
    for row in _rows_in(kept):
        if (key := row[:_HASH_BYTES]) in keys:
            found[key] += row
    return found


def _count(report: SidesReport, rows: Sequence[Row], matched: Matched, rules: Rules) -> None:
    for different in matched.different:
        for name in map(shown_name, different.fields):
            known = name in report.fields or len(report.fields) < MOST_FIELDS
            at = name if known else OTHER_FIELDS
            report.fields[at] = report.fields.get(at, 0) + 1
    findings: list[tuple[IdFinding, list[Row]]] = [
        (IdFinding.LOST, matched.lost),
        (IdFinding.DUPLICATED, matched.duplicated),
        (IdFinding.UNEXPECTED, matched.unexpected),
        (IdFinding.LATE, matched.late),
        (IdFinding.DIFFERENT, [one.output for one in matched.different]),
        (IdFinding.DUPLICATED_IN_BASELINE, matched.duplicated_in_baseline),
    ]
    for finding, several in findings:
        if not several:
            continue
        found = report.findings
        found.ids[finding] = found.ids.get(finding, 0) + 1
        found.records[finding] = found.records.get(finding, 0) + len(several)
        partitions = found.partitions.setdefault(finding, {})
        for row in several:
            if row.number != NO_PARTITION:
                partitions[row.number] = partitions.get(row.number, 0) + 1
        report.examples.append(_example(finding, rows, matched, several, places=rules.places))
    if len(report.examples) > 12 * rules.examples:
        # When everything differs, not all of it is held.
        report.examples = first_examples(report.examples, rules.examples)


def _example(
    finding: IdFinding, rows: Sequence[Row], matched: Matched, several: Sequence[Row], *, places: int
) -> SideExample:
    first = several[0]
    baseline = sorted((row for row in rows if not row.is_output), key=_order)
    outputs = sorted((row for row in rows if row.is_output), key=_order)
    if finding is IdFinding.DIFFERENT:
        one = matched.different[0]
        values = tuple(_values(name, one.baseline, one.output) for name in one.fields[:_MOST_SHOWN])
    elif finding is IdFinding.LATE:
        values = ()
    else:
        names = sorted(first.leaves)[:_MOST_SHOWN]
        values = tuple(
            _values(name, None if first.is_output else first, first if first.is_output else None) for name in names
        )
    return SideExample(
        finding=finding,
        order=_order(first),
        id=first.id,
        expected=len(baseline),
        found=len(outputs),
        inputs=_places(baseline, places),
        outputs=_places(outputs, places),
        baseline_file=next((row.file for row in baseline if row.file is not None), None),
        values=values,
    )


def _values(name: str, baseline: Row | None, output: Row | None) -> FieldValues:
    return FieldValues(
        field=shown_name(name),
        baseline=None if baseline is None else shown_value(baseline.leaves, name),
        output=None if output is None else shown_value(output.leaves, name),
    )


def _places(rows: Sequence[Row], most: int) -> tuple[Place, ...]:
    return tuple(Place(row.number, row.offset) for row in rows if row.number != NO_PARTITION)[:most]


def _order(row: Row) -> tuple[int, int, str]:
    return row.number, row.offset, row.id
