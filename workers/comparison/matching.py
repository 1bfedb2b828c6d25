"""The comparison of all records of one id: which belong together, and the finding for each other one."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from workers.comparison.fields import differing
from workers.comparison.rows import Row

_MOST_TRIED = 10_000
"""Pairs that are tried, for ids with many records."""
_in_time = attrgetter("at_ms", "number", "offset", "fingerprint")

Pairs = list[tuple[Row, Row]]
"""A record of the baseline and its output each."""


class NoIdError(Exception):
    """The field that should identify a record is the same in too many of them."""


class Different(NamedTuple):
    baseline: Row
    output: Row
    fields: list[str]


class Matched(NamedTuple):
    """The findings about one id. late: outputs outside the window, of a record of the baseline in it."""

    lost: list[Row]
    duplicated: list[Row]
    unexpected: list[Row]
    different: list[Different]
    duplicated_in_baseline: list[Row]
    late: list[Row]


def match(rows: Sequence[Row], *, tolerance: float, padding_ms: int) -> Matched:
    """Compare the records of one id as multisets, nearest in time first.

    1. pair equal records
    2. pair the rest               they are different; reported where the baseline's record lies in the window
    3. the baseline has more      a record that equals a paired one is duplicated there, another one is lost
    4. the output has more         duplicated beside a record of the baseline's window, unexpected beside none

    Beyond the window two records are a pair only if their times differ by at most the padding. Otherwise a record of
    another window would hide a duplicate in this one, since its own output was not read. A further output is reported
    unless a neighbouring window surely reports it: one with a record of the baseline within the padding of it.
    """
    order = sorted(rows, key=_in_time)
    baseline = [row for row in order if not row.is_output]
    outputs = [row for row in order if row.is_output]
    equal, rest, more = _equal(baseline, outputs, tolerance, padding_ms)
    unequal, left, surplus = _paired(rest, more, padding_ms)
    # None: equal within the tolerance, which was not tried for all pairs.
    different = [
        Different(one, output, fields)
        for one, output in unequal
        if one.is_window and (fields := differing(one.leaves, output.leaves, tolerance=tolerance))
    ]
    late = [output for one, output in (*equal, *unequal) if one.is_window and not output.is_window]
    known = {one.fingerprint for one, _ in (*equal, *unequal)}
    lost: list[Row] = []
    repeated: list[Row] = []
    for row in left:
        if row.is_window:
            (repeated if row.fingerprint in known else lost).append(row)
    window_ms = [row.at_ms for row in baseline if row.is_window]
    all_ms = [row.at_ms for row in baseline]
    duplicated: list[Row] = []
    unexpected: list[Row] = []
    for row in surplus:
        is_single = not _has_near(all_ms, row.at_ms, padding_ms)
        if _has_near(window_ms, row.at_ms, padding_ms) or (window_ms and is_single):
            duplicated.append(row)
        elif row.is_window and is_single:
            unexpected.append(row)
    return Matched(
        lost=lost,
        duplicated=duplicated,
        unexpected=unexpected,
        different=different,
        duplicated_in_baseline=repeated,
        late=late,
    )


def newest(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with only the newest output of each time.

    Raises NoIdError if the id and the time do not identify a row, or outputs are in several partitions.
    """
    found: dict[int, Row] = {}
    baseline: dict[int, Row] = {}
    for row in rows:
        of_side = found if row.is_output else baseline
        before = of_side.setdefault(row.at_ms, row)
        if not row.is_output and before is not row:
            raise NoIdError(f"several recomputed rows have one id and one time: {_OTHER_ID}")
        if row.number != before.number:
            raise NoIdError("outputs of one key are in several partitions, so the newest one is not known")
        if row.offset > before.offset:
            of_side[row.at_ms] = row
    return [*baseline.values(), *found.values()]


_OTHER_ID = "compare by a field that identifies them with the time"


def _has_near(times_ms: Sequence[int], at_ms: int, padding_ms: int) -> bool:
    index = bisect_left(times_ms, at_ms - padding_ms)
    return index < len(times_ms) and times_ms[index] <= at_ms + padding_ms


def _equal(
    baseline: Sequence[Row], outputs: Sequence[Row], tolerance: float, padding_ms: int
) -> tuple[Pairs, list[Row], list[Row]]:
    """Return the equal pairs, and the other records of each side."""
    groups: defaultdict[int, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for row in (*baseline, *outputs):
        groups[row.fingerprint][row.is_output].append(row)
    pairs: Pairs = []
    rest: list[Row] = []
    more: list[Row] = []
    for of_baseline, of_output in groups.values():
        some, left, surplus = _paired(of_baseline, of_output, padding_ms)
        pairs += some
        rest += left
        more += surplus
    rest.sort(key=_in_time)
    more.sort(key=_in_time)
    if tolerance and len(rest) * len(more) <= _MOST_TRIED:
        near, rest, more = _paired(
            rest, more, padding_ms, lambda one, output: not differing(one.leaves, output.leaves, tolerance=tolerance)
        )
        pairs += near
    return pairs, rest, more


def _paired(
    baseline: Sequence[Row],
    outputs: Sequence[Row],
    padding_ms: int,
    fits: Callable[[Row, Row], bool] = lambda _one, _output: True,
) -> tuple[Pairs, list[Row], list[Row]]:
    """Return pairs, nearest in time first, and the other records of each side. All are in the order of time."""
    if len(baseline) * len(outputs) > _MOST_TRIED:
        candidates = _in_order(baseline, outputs, padding_ms)
    else:
        candidates = (
            pair
            for _, *pair in sorted(
                (abs(one.at_ms - output.at_ms), of_baseline, of_output)
                for of_baseline, one in enumerate(baseline)
                for of_output, output in enumerate(outputs)
                if _may_pair(one, output, padding_ms) and fits(one, output)
            )
        )
    pairs: Pairs = []
    of_baselines, of_outputs = set[int](), set[int]()
    for of_baseline, of_output in candidates:
        if of_baseline not in of_baselines and of_output not in of_outputs:
            of_baselines.add(of_baseline)
            of_outputs.add(of_output)
            pairs.append((baseline[of_baseline], outputs[of_output]))
    return (
        pairs,
        [row for index, row in enumerate(baseline) if index not in of_baselines],
        [row for index, row in enumerate(outputs) if index not in of_outputs],
    )


def _may_pair(one: Row, output: Row, padding_ms: int) -> bool:
    return (one.is_window and output.is_window) or abs(one.at_ms - output.at_ms) <= padding_ms


def _in_order(baseline: Sequence[Row], outputs: Sequence[Row], padding_ms: int) -> Iterator[tuple[int, int]]:
    """Yield the indexes of pairs: those of equal times, then those in the order of time."""
    at_time: defaultdict[int, deque[int]] = defaultdict(deque)
    for index, output in enumerate(outputs):
        at_time[output.at_ms].append(index)
    rest: deque[int] = deque()
    for index, one in enumerate(baseline):
        if at_time[one.at_ms]:
            yield index, at_time[one.at_ms].popleft()
        else:
            rest.append(index)
    more = deque(sorted(index for several in at_time.values() for index in several))
    while rest and more:
        one, output = baseline[rest[0]], outputs[more[0]]
        if _may_pair(one, output, padding_ms):
            yield rest.popleft(), more.popleft()
        elif one.at_ms < output.at_ms:
            rest.popleft()
        else:
            more.popleft()
