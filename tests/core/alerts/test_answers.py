"""Receivers' answers: taken, refused, or to be tried again."""

from __future__ import annotations

import pytest

from app.core.alerts.webhook import Answered


@pytest.mark.parametrize(
    ("status", "clock_ahead_s", "said"),
    [
        (401, 412, "rejects it with 401; its clock is 6.9 min ahead of the server's"),
        (400, -70, "its clock is 70 s behind the server's"),
        (401, 59, "the receiver rejects it with 401"),
        (503, 412, "the receiver answers 503"),
    ],
)
def test_refusal_by_a_receiver_whose_clock_is_off_says_so(status: int, clock_ahead_s: int, said: str) -> None:
    problem = Answered(status, "", clock_ahead_s).problem
    assert said in problem
    assert ("clock" in problem) is ("clock" in said)


@pytest.mark.parametrize(
    ("status", "is_taken", "is_refusal", "said"),
    [
        (200, True, False, ""),
        (204, True, False, ""),
        (301, False, False, "Fenceline does not follow"),
        (400, False, True, "rejects it with 400"),
        (401, False, True, "rejects it with 401"),
        (408, False, False, "answers 408"),
        (410, False, True, "is paused"),
        (429, False, False, "answers 429"),
        (500, False, False, "answers 500"),
        (503, False, False, "answers 503"),
    ],
)
def test_the_meaning_of_each_answer(status: int, is_taken: bool, is_refusal: bool, said: str) -> None:
    answered = Answered(status, "")
    assert (answered.is_taken, answered.is_refusal) == (is_taken, is_refusal)
    assert said in answered.problem
