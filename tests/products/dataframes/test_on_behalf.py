"""Records of batches after a drill: consistent, contradictory, or not complete."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from app.core.batch_figures import BatchFigures
from app.products.dataframes.batch import QueryBatch
from app.products.dataframes.service.on_behalf import figures_of
from tests.support.queries import NOW, batch


def at(number: int, seconds: float, **fields: object) -> QueryBatch:
    return batch(number, ended_at=NOW + timedelta(seconds=seconds), **fields)


BEFORE = [at(number, number - 20) for number in range(10)]


def judged(*after: QueryBatch, markers: Mapping[int, int] | None) -> BatchFigures:
    return figures_of([*reversed(after), *reversed(BEFORE)], since=NOW, markers=markers)


def test_each_number_once_and_markers_that_are_not_behind() -> None:
    found = judged(at(10, 1), at(11, 30), markers={0: 11, 1: 12})
    assert found == BatchFigures(first=10, last=11, input_rows=2_000)


def test_a_batch_that_the_next_driver_repeats_has_one_record() -> None:
    before = BEFORE[:9]
    found = figures_of([at(10, 32), at(9, 31, lease=2), *reversed(before)], since=NOW, markers={0: 10})
    assert (found.first, found.last, found.wrong, found.unknown) == (9, 10, "", "")


@pytest.mark.parametrize(
    ("after", "markers", "said"),
    [
        ((at(10, 1),), {0: 10, 1: 9}, "batch 10 ended, but the marker of writer 1 is batch 9"),
        ((at(10, 1), at(0, 30, query_id="another")), {0: 10}, "the query began with a new checkpoint"),
        ((at(5, 1),), {0: 9}, "batch 5 ended after batch 9"),
    ],
    ids=["marker", "checkpoint", "back"],
)
def test_contradictions(after: tuple[QueryBatch, ...], markers: Mapping[int, int], said: str) -> None:
    assert judged(*after, markers=markers).wrong == said


@pytest.mark.parametrize(
    ("after", "markers", "said"),
    [
        ((), {0: 9}, "no batch ended in its time"),
        ((at(10, 1),), None, "the markers of its writers are not known: the group's journal is not read"),
        ((at(10, 1), at(13, 30)), {0: 13}, "2 of its batches have no record, the first is batch 11"),
    ],
    ids=["none", "unread", "missing"],
)
def test_incomplete_records_show_nothing(
    after: tuple[QueryBatch, ...], markers: Mapping[int, int] | None, said: str
) -> None:
    found = judged(*after, markers=markers)
    assert (found.unknown, found.wrong) == (said, "")
