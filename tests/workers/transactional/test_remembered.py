"""What an attempt reports of its committed offsets; with brokers: tests/exactly_once/test_forgotten_offsets.py."""

from __future__ import annotations

from workers.transactional.group.ownership import Ownership
from workers.transactional.group.remembered import Remembered

KEPT, GIVEN_UP = ("t", 0), ("t", 1)


def drained() -> Remembered:
    """Of an attempt that had both partitions, and gave one up before it drained."""
    ownership = Ownership()
    remembered = Remembered((), ownership=ownership, ask=lambda: None)
    ownership.assigned([KEPT, GIVEN_UP])
    remembered.note({KEPT: 7, GIVEN_UP: 9})
    ownership.given_up([GIVEN_UP])
    remembered.settle(ownership.owned)
    # Closing the consumer gives up the rest.
    ownership.given_up([KEPT])
    return remembered


def test_only_partitions_that_were_owned_until_the_drain_are_final() -> None:
    found = {(one.topic, one.partition): (one.offset, one.is_final) for one in drained().seen(is_final=True)}
    assert found == {KEPT: (7, True), GIVEN_UP: (9, False)}


def test_nothing_is_final_while_the_attempt_has_not_drained() -> None:
    assert not any(one.is_final for one in drained().seen(is_final=False))
