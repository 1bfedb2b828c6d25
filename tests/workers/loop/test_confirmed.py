"""Answers of a coordinator against what it has confirmed before."""

from __future__ import annotations

import pytest

from app.core.clusters.partition import Partition
from workers.loop.errors import RetriableError
from workers.loop.group.confirmed import ConfirmedOffsets
from workers.loop.group.ownership import Ownership

NAME = Partition("t", 0)


@pytest.fixture
def ownership() -> Ownership:
    made = Ownership()
    made.assigned([NAME])
    return made


@pytest.fixture
def confirmed(ownership: Ownership) -> ConfirmedOffsets:
    made = ConfirmedOffsets(ownership)
    made.add({NAME: 10})
    made.add({NAME: 500})
    return made


@pytest.mark.parametrize(("answer", "reported"), [(499, "499"), (None, "nothing")])
def test_answer_below_a_confirmed_commit_is_requested_again(
    confirmed: ConfirmedOffsets, answer: int | None, reported: str
) -> None:
    with pytest.raises(RetriableError, match=f"t-0: the coordinator reports {reported} as committed, but 500 was"):
        confirmed.refuse_older({Partition("t", 1): 3, NAME: answer})


@pytest.mark.parametrize("answer", [500, 501])
def test_answer_may_be_the_confirmed_offset_or_more(confirmed: ConfirmedOffsets, answer: int) -> None:
    """More: a commit whose outcome was not received."""
    confirmed.refuse_older({NAME: answer})


def test_partition_that_went_and_came_back_may_have_any_offset(
    confirmed: ConfirmedOffsets, ownership: Ownership
) -> None:
    ownership.given_up([NAME])
    confirmed.refuse_older({NAME: 3})
    ownership.assigned([NAME])
    confirmed.refuse_older({NAME: None})


def test_partition_that_nothing_was_committed_for_may_have_any_offset(
    confirmed: ConfirmedOffsets, ownership: Ownership
) -> None:
    ownership.assigned([Partition("t", 1)])
    confirmed.refuse_older({Partition("t", 1): None, NAME: 500})
