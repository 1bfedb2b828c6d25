"""A new checkpoint: the records that are read again, and those that are never read."""

from __future__ import annotations

import pytest

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import StartPosition
from app.products.dataframes.start_over import start_over_effect

FIRST, SECOND = Partition("in", 0), Partition("in", 1)


@pytest.mark.parametrize(
    ("has_state", "position", "read_again", "skipped"),
    [
        (False, StartPosition.EARLIEST, 0, 0),
        (False, StartPosition.LATEST, 0, 0),
        (True, StartPosition.EARLIEST, 70 + 40, 0),
        (True, StartPosition.LATEST, 0, 25 + 10),
    ],
)
def test_position_decides_for_queries_with_state_only(
    has_state: bool, position: StartPosition, read_again: int, skipped: int
) -> None:
    effect = start_over_effect(
        has_state=has_state,
        start_position=position,
        committed={FIRST: 100, SECOND: 40},
        begins={FIRST: 30, SECOND: 0},
        ends={FIRST: 125, SECOND: 50},
    )
    assert (effect.read_again, effect.skipped) == (read_again, skipped)
    text = " ".join(effect.sentences)
    assert ("written a second time" in text) is bool(read_again)
    assert ("are never read" in text) is bool(skipped)
    assert ("The state begins empty" in text) is has_state


def test_deleted_records_are_skipped_and_new_partitions_are_read_from_their_start() -> None:
    effect = start_over_effect(
        has_state=False,
        start_position=StartPosition.EARLIEST,
        committed={FIRST: 100},
        begins={FIRST: 150, SECOND: 7},
        ends={FIRST: 200, SECOND: 9},
    )
    assert (effect.read_again, effect.skipped) == (0, 50)
    assert effect.sentences == ("Nothing is read again.", "At most 50 records are never read.")
