"""docs/measured/growth.md shows what `bench.growth` found; a sublinear figure is judged without its base."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.growth.page import COSTS, FIGURES, GROWTHS, PAGE, PICTURES, RESULT, exponent, page, sublinear, svg

MACHINE = {"measured_at": "2026-01-02 03:04 UTC", "cores": 2, "load_before": 0.1}
HEAVY = {"per_second": 12.0, "cores": 0.25, "text": "SELECT a | b"}


def a_step(size: int, **figures: float | None) -> dict[str, Any]:
    shown = dict.fromkeys((one.key for one in FIGURES), 1.0)
    return {"size": size, "heaviest": [HEAVY], **shown, "refused": 0, "unheard": 0, **figures}


def report(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"machine": MACHINE, "tasks": {"machine": MACHINE, "measured_s": 15.0, "steps": list(steps)}}


def row_of(text: str, beginning: str) -> list[str]:
    (found,) = [line for line in text.splitlines() if line.startswith(f"| {beginning} |")]
    return [cell.strip() for cell in found.strip("| ").split("|")]


def test_page_and_pictures_are_made_of_the_result_and_are_not_there_without_it() -> None:
    assert PAGE.exists() == RESULT.exists()
    if not RESULT.exists():
        return
    found = json.loads(RESULT.read_text("utf-8"))
    assert PAGE.read_text("utf-8") == page(found), "make them anew: python -m bench.growth.page"
    for name in GROWTHS:
        picture = PICTURES / f"growth-{name}.svg"
        assert picture.exists() == (name in found)
        if name in found:
            assert picture.read_text("utf-8") == svg(found[name]), "make them anew: python -m bench.growth.page"


def test_cost_is_what_a_size_adds_to_the_base() -> None:
    steps = [a_step(size, server_cores=0.5 + 0.01 * size) for size in (0, 1, 10, 100)]
    assert sublinear(steps, "server_cores") == (100, pytest.approx(100))
    assert exponent(steps, "server_cores") == pytest.approx(1)
    row = row_of(page(report(*steps)), "cores of the server")
    assert row[1:] == ["100", "100.0", "0.01", "1.00"]


def test_root_is_told_as_sublinear() -> None:
    steps = [a_step(size, server_cores=0.5 + 0.01 * size**0.5) for size in (0, 1, 10, 100)]
    assert sublinear(steps, "server_cores") == (100, pytest.approx(10))
    assert exponent(steps, "server_cores") == pytest.approx(0.5)


def test_what_the_smallest_does_not_add_is_not_told_in_proportion() -> None:
    text = page(report(a_step(0), a_step(1), a_step(10, memory_mb=3.0)))
    assert "unknown: the smallest" in row_of(text, "memory of the server, MB")[2]
    assert text.count("unknown: the smallest") == len(COSTS)


def test_size_at_which_heartbeats_were_refused_is_not_judged_nor_any_after_it() -> None:
    costs = {size: a_step(size, server_cores=0.1 * size) for size in (0, 1, 10, 50, 100)}
    text = page(report(*(one | {"refused": int(size == 50)} for size, one in costs.items())))
    assert "refused there or before: 50, 100." in text
    assert row_of(text, "cores of the server")[1:3] == ["10", "10.0"]


def test_statement_with_a_bar_stays_in_its_cell() -> None:
    assert "| 12.0 | 0.250 | `SELECT a \\| b` |" in page(report(a_step(0), a_step(1), a_step(2)))
