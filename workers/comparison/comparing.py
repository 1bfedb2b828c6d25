"""One bucket of ids, and the comparison of both sides.

Rows are read for a sum over each id first, which shows whether both sides have equal records in the window. Then they
are read for the values of the other ids. A bounded size of values is held at once; the rows are read again for more.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from app.products.audits.result import FieldTally, FieldValues, IdFinding
from workers.audit.comparing import BucketReport
from workers.comparison.fields import shown_name, shown_value
from workers.comparison.matching import Matched, match
from workers.comparison.rows import BASELINE, HEAD, NO_PARTITION, OUTPUT, PADDING, WINDOW, Row, unpack

MOST_OF_AN_ID = 10_000
"""Records of one id; with more it identifies no record, and they would not fit into memory."""
MOST_FIELDS = 200
"""Fields with a count of their own; those beyond are counted together, for records whose keys never repeat."""
OTHER_FIELDS = "(other fields)"
_MOST_SHOWN = 20
_IN_MEMORY_BYTES = 64 * 1024 * 1024
_FIELD = 40
_MASK = (1 << _FIELD) - 1
_FINGERPRINTS = 1 << 64
_SUM = 4 * _FIELD
"""Four counts below the sum of fingerprints, in one number."""


class NoIdError(Exception):
    """The field that should identify a record is the same in too many of them."""


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


def compare_sides(
    pieces: Iterable[bytes], *, tolerance: float, examples: int, places: int, held_bytes: int = _IN_MEMORY_BYTES
) -> SidesReport:
    """Compare all ids of a bucket.

    held_bytes: the size of values that are held at once, approximately.

    Raises NoIdError for an id with more than MOST_OF_AN_ID records.
    """
    report = SidesReport(findings=BucketReport())
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as kept:
        summed: dict[bytes, int] = {}
        rows = size = 0
        for piece in pieces:
            kept.write(piece)
            rows += _add(summed, piece)
            size += len(piece)
        numbers = {key: records for key, packed in summed.items() if (records := _records_unless_clean(packed))}
        summed.clear()
        for keys in _parts(numbers, most=max(1, held_bytes * rows // max(1, size))):
            kept.seek(0)
            for of_id in _rows_of(kept, keys).values():
                _count(report, of_id, match(of_id, tolerance=tolerance), examples=examples, places=places)
    report.examples = first_examples(report.examples, examples)
    return report


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


def _add(summed: dict[bytes, int], piece: bytes) -> int:
    """Add a piece to the sums; returns the number of its rows."""
    at = rows = 0
    while at < len(piece):
        digest, flags, _, _, fingerprint, length = HEAD.unpack_from(piece, at)
        # Equal records of the two sides add up to one multiple of the modulus.
        value = _FINGERPRINTS - fingerprint if flags & OUTPUT else fingerprint
        summed[digest] = summed.get(digest, 0) + _WEIGHTS[flags & 3] + (value << _SUM)
        at += HEAD.size + length
        rows += 1
    return rows


def _records_unless_clean(packed: int) -> int:
    """Return the number of an id's records; 0 if its sides are equal, or it concerns other windows only."""
    counts = [packed >> shift * _FIELD & _MASK for shift in range(4)]
    baseline, output, baseline_beside, output_beside = counts
    if not baseline and not output:
        return 0
    is_equal = baseline == output and not baseline_beside and not output_beside
    if is_equal and packed >> _SUM == baseline * _FINGERPRINTS:
        return 0
    return sum(counts)


def _parts(numbers: dict[bytes, int], *, most: int) -> Iterator[set[bytes]]:
    """Yield sets of ids with about `most` records each."""
    part: set[bytes] = set()
    records = 0
    for key, number in numbers.items():
        if part and records + number > most:
            yield part
            part, records = set[bytes](), 0
        part.add(key)
        records += number
    if part:
        yield part


def _rows_of(kept: tempfile.SpooledTemporaryFile[bytes], keys: set[bytes]) -> dict[bytes, list[Row]]:
    found: defaultdict[bytes, list[Row]] = defaultdict(list)
    while head := kept.read(HEAD.size):
        fields = HEAD.unpack(head)
        rest = kept.read(fields[-1])
        if fields[0] not in keys:
            continue
        of_id = found[fields[0]]
        of_id.append(unpack(fields, rest))
        if len(of_id) > MOST_OF_AN_ID:
            # Without the id, which is a record's content.
            raise NoIdError(f"more than {MOST_OF_AN_ID:,} records have one id: compare by a field that identifies them")
    return found


def _count(report: SidesReport, rows: list[Row], matched: Matched, *, examples: int, places: int) -> None:
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
        report.examples.append(_example(finding, rows, matched, several, places=places))
    if len(report.examples) > 12 * examples:
        # When everything differs, not all of it is held.
        report.examples = first_examples(report.examples, examples)


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
