"""Pauses grow to a bound and spread; what an answer means."""

from __future__ import annotations

import pytest

from app.products.webhooks.retry import Answered, Pace


def test_pauses_double_up_to_the_longest() -> None:
    pace = Pace(first_s=5, longest_s=900)
    pauses = [pace.pause_s(attempts=attempts, chance=0.5) for attempts in range(1, 11)]
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]
    assert pace.pause_s(attempts=1_000_000, chance=0.5) == 900


def test_pauses_are_spread_by_a_quarter_to_either_side() -> None:
    pace = Pace(first_s=100)
    assert pace.pause_s(attempts=1, chance=0.0) == 75
    assert pace.pause_s(attempts=1, chance=1.0) == 125


def test_lease_outlives_every_attempt() -> None:
    """Or another server would send what this one is still sending."""
    assert Pace().lease_s > 2 * Pace().timeout_s


@pytest.mark.parametrize(
    ("status", "clock_ahead_s", "said"),
    [
        (401, 412, "refuses it with 401; its clock is 6.9 min ahead of ours"),
        (400, -70, "its clock is 70 s behind ours"),
        (401, 59, "the receiver refuses it with 401"),
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
        (301, False, False, "sends us elsewhere"),
        (400, False, True, "refuses it with 400"),
        (401, False, True, "refuses it with 401"),
        (408, False, False, "answers 408"),
        (410, False, True, "is paused"),
        (429, False, False, "answers 429"),
        (500, False, False, "answers 500"),
        (503, False, False, "answers 503"),
    ],
)
def test_what_an_answer_means(status: int, is_taken: bool, is_refusal: bool, said: str) -> None:
    answered = Answered(status, "")
    assert (answered.is_taken, answered.is_refusal) == (is_taken, is_refusal)
    assert said in answered.problem
