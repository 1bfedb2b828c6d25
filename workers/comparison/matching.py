"""The comparison of all records of one id: which belong together, and the finding for each other one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from workers.comparison.fields import differing
from workers.comparison.rows import Row

_MOST_TRIED = 10_000
"""Pairs that are tried for equality within the tolerance, for ids with many records."""


class Different(NamedTuple):
    baseline: Row
    output: Row
    fields: list[str]


class Matched(NamedTuple):
    """The findings about one id. late: outputs outside the window, equal to a record of the baseline in it."""

    lost: list[Row]
    duplicated: list[Row]
    unexpected: list[Row]
    different: list[Different]
    duplicated_in_baseline: list[Row]
    late: list[Row]


def match(rows: Sequence[Row], *, tolerance: float) -> Matched:
    """Compare the records of one id as multisets. Order does not matter.

    1. pair equal records          those in the window first, then within the padding
    2. pair the rest               they are different; reported where the baseline's record lies in the window
    3. the baseline has more      a record that equals a paired one is duplicated there, another one is lost
    4. the output has more         duplicated if the window of the baseline has the id, unexpected if the baseline
                                   does not have it at all

    The baseline is read for twice the padding, so neighbouring windows report each finding once, as audits do.
    """
    order = sorted(rows, key=lambda row: (not row.is_window, row.number, row.offset, row.fingerprint))
    baseline = [row for row in order if not row.is_output]
    outputs = [row for row in order if row.is_output]
    pairs, rest, more = _equal(baseline, outputs, tolerance)
    late = [output for one, output in pairs if one.is_window and not output.is_window]
    different: list[Different] = []
    for one, output in zip(rest, more, strict=False):
        if one.is_window:
            # None: equal within the tolerance, which was not tried for all pairs.
            if fields := differing(one.leaves, output.leaves, tolerance=tolerance):
                different.append(Different(one, output, fields))
            if not output.is_window:
                late.append(output)
    known = {row.fingerprint for row in (*(one for one, _ in pairs), *rest[: len(more)])}
    lost: list[Row] = []
    repeated: list[Row] = []
    for row in rest[len(more) :]:
        if row.is_window:
            (repeated if row.fingerprint in known else lost).append(row)
    surplus = more[len(rest) :]
    has_window = bool(baseline) and baseline[0].is_window
    return Matched(
        lost=lost,
        duplicated=surplus if has_window else [],
        unexpected=[] if baseline else [row for row in surplus if row.is_window],
        different=different,
        duplicated_in_baseline=repeated,
        late=late,
    )


def _equal(
    baseline: Sequence[Row], outputs: Sequence[Row], tolerance: float
) -> tuple[list[tuple[Row, Row]], list[Row], list[Row]]:
    """Return the equal pairs, and the other records of each side in their order."""
    by_fields: defaultdict[int, list[Row]] = defaultdict(list)
    for row in reversed(outputs):
        by_fields[row.fingerprint].append(row)
    pairs: list[tuple[Row, Row]] = []
    rest: list[Row] = []
    for row in baseline:
        if by_fields[row.fingerprint]:
            pairs.append((row, by_fields[row.fingerprint].pop()))
        else:
            rest.append(row)
    taken = {id(output) for _, output in pairs}
    more = [row for row in outputs if id(row) not in taken]
    if not tolerance or len(rest) * len(more) > _MOST_TRIED:
        return pairs, rest, more
    left: list[Row] = []
    for row in rest:
        near = next((one for one in more if not differing(row.leaves, one.leaves, tolerance=tolerance)), None)
        if near is None:
            left.append(row)
        else:
            pairs.append((row, near))
            more = [one for one in more if one is not near]
    return pairs, left, more
