"""docs/measured/benchmark.md says what latest.json found: medians, intervals, what is not met, and every round."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.peers import pictures
from bench.peers.__main__ import order_of
from bench.peers.page import DATAFRAMES, DOCS, MEMORY, PAGE, PROFILE, is_met, page
from bench.peers.ratios import ratio
from bench.peers.report import RESULT


def kept(at: Path) -> Any:
    return json.loads(at.read_text("utf-8")) if at.exists() else None


def test_page_and_pictures_are_made_of_the_result() -> None:
    report = kept(RESULT)
    again = "make it anew: python -m bench.peers.page"
    made = page(report, profile=kept(PROFILE), memory=kept(MEMORY), dataframes=kept(DATAFRAMES))
    assert PAGE.read_text("utf-8") == made, again
    for name, drawn in pictures.all_of(report, kept(MEMORY)).items():
        assert (DOCS / "images" / f"{name}.svg").read_text("utf-8") == drawn, again


def a_goal(*rounds: float, at_least: float, low: float | None = None, narrow: float | None = None) -> dict[str, Any]:
    found = ratio(rounds, [1.0] * len(rounds))
    return {
        "at_least": at_least,
        "low": low,
        "narrow": narrow,
        "ratio": {"median": found.median, "low": found.low, "high": found.high, "rounds": list(found.rounds)},
    }


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (a_goal(1.7, 1.5, 1.6, at_least=1.6), True),
        (a_goal(1.7, 1.5, 1.59, at_least=1.6), False),
        (a_goal(0.98, 0.97, 0.96, at_least=0.97, low=0.95, narrow=0.04), True),
        (a_goal(0.98, 0.98, 0.94, at_least=0.97, low=0.95, narrow=0.05), False),
        (a_goal(1.02, 0.98, 0.97, at_least=0.97, low=0.95, narrow=0.04), False),
    ],
)
def test_a_goal_is_met_by_its_median_and_by_its_interval(goal: dict[str, Any], met: bool) -> None:
    assert is_met(goal) is met


def test_what_is_not_met_says_by_how_much_and_every_round_stands_there() -> None:
    report: dict[str, Any] = {
        "goals": {"one": a_goal(0.8, 0.9, 1.0, at_least=1.8), "two": a_goal(2.0, 2.0, at_least=1.0)},
        "ratios": {"one": 0.9, "two": 2.0, "a value": 70.0},
        "values": {"a value": {"at_most": 60}},
        "meetings": {},
        "pairs": {},
    }
    text = page(report, profile=None, memory=None, dataframes=None)
    assert "| one | at least 1.8 | **0.9** | 0.8 to 1 | 3 | **not met** |" in text
    assert "- one: 0.9, goal 1.8: 50 % below it." in text
    assert "- two" not in text
    assert "| one | 0.8, 0.9, 1 |" in text
    assert "| a value | at most 60 | **70** | | | **not met** |" in text
    assert "- a value: 70, goal 60: 1.17 times." in text
    assert "Not measured yet: identity, 100 B, commits each 100 ms; " in text


@pytest.mark.parametrize("names", ["AB", "ABC", "ABCDE"])
def test_each_system_begins_as_many_rounds_as_the_others_and_ends_as_many(names: str) -> None:
    orders = [order_of(names, number) for number in range(2 * len(names))]
    assert all(sorted(order) == sorted(names) for order in orders)
    for at in (0, -1):
        assert Counter(order[at] for order in orders) == dict.fromkeys(names, 2)


def test_ratios_are_of_one_round_and_their_interval_holds_the_median() -> None:
    found = ratio([2.0, 30.0, 400.0], [1.0, 10.0, 100.0])
    assert found.rounds == (2.0, 3.0, 4.0)
    assert found.low <= found.median == 3.0 <= found.high
    with pytest.raises(ValueError, match="argument"):
        ratio([1.0], [1.0, 2.0])
