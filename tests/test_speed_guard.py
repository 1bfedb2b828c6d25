"""The loop is not half as fast as it was: ratios to the same work without us, in one run, against a kept baseline."""

from __future__ import annotations

import json

import pytest

from bench.guard import ratios, too_slow
from bench.machine import RESULTS

BASELINE = json.loads((RESULTS / "guard.json").read_text("utf-8"))


@pytest.mark.always
@pytest.mark.slow
def test_loop_and_steps_are_about_as_fast_as_they_were() -> None:
    found = ratios()
    assert all(len(rounds) >= 3 for rounds in found.values()), found
    assert not too_slow(found, BASELINE), f"{too_slow(found, BASELINE)}; every round: {found}"


@pytest.mark.parametrize(("slower", "names"), [(0.5, {"loop", "steps"}), (0.8, set[str]()), (2.0, set[str]())])
def test_a_halving_is_found_and_noise_is_not_taken_for_one(slower: float, names: set[str]) -> None:
    found = {
        name: [BASELINE[name]["median"] * slower * noise for noise in (0.9, 1.0, 1.1)] for name in ("loop", "steps")
    }
    assert set(too_slow(found, BASELINE)) == names
