"""docs/measured/guarantees.md and its picture say what `bench.guarantees` found, odd rounds and failed ones too."""

from __future__ import annotations

import json
from typing import Any

from bench.guarantees import medians
from bench.guarantees_page import FIGURES, PAGE, PICTURE, RESULT, page, svg

V1, V2 = "exactly_once", "exactly_once_v2"


def a_round(number: int, guarantee: str, **figures: float) -> dict[str, Any]:
    shown = dict.fromkeys((figure.key for figure in FIGURES), 1.0)
    return {"partitions": 10, "round": number, "guarantee": guarantee, **shown, **figures}


def report(*rounds: dict[str, Any]) -> dict[str, Any]:
    return {
        "machine": {"measured_at": "2026-01-02 03:04 UTC", "cores": 2, "load_before": 0.1},
        "commit": "0123456789abcdef",
        "changed_since_commit": False,
        "tasks": 2,
        "record_bytes": 100,
        "records": 1_000,
        "steady_per_second": 100,
        "steady_seconds": 1.0,
        "medians": medians(list(rounds)),
        "rounds": list(rounds),
    }


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_page_and_picture_are_made_of_the_result_and_are_not_there_without_it() -> None:
    assert PAGE.exists() == PICTURE.exists() == RESULT.exists()
    if not RESULT.exists():
        return
    found = json.loads(RESULT.read_text("utf-8"))
    assert PAGE.read_text("utf-8") == page(found), "make them anew: python -m bench.guarantees_page"
    assert PICTURE.read_text("utf-8") == svg(found), "make them anew: python -m bench.guarantees_page"


def test_ratios_are_of_the_two_in_one_round() -> None:
    text = page(
        report(
            *(a_round(number, V1, broker_cores=cores) for number, cores in enumerate((3.0, 8.0, 1.0))),
            *(a_round(number, V2, broker_cores=cores) for number, cores in enumerate((1.0, 2.0, 1.0))),
        )
    )
    (ratios,) = [row for row in rows_of(text) if row[0] == "10" and row[1][:1] != "`"]
    assert "3.00 (3.00, 4.00, 1.00)" in ratios
    assert ratios.count("1.00 (1.00, 1.00, 1.00)") == len(ratios) - 2


def test_a_round_that_is_odd_is_told_and_counts() -> None:
    text = page(report(*(a_round(number, V1, worker_cores=cores) for number, cores in enumerate((0.5, 0.6, 1.9)))))
    assert "- 10 partitions, `exactly_once`, round 3: cores of the workers 1.90 (median 0.60)" in text
    assert text.count("median 0.60") == 1


def test_a_round_that_did_not_come_through_is_told_and_has_no_figures() -> None:
    failed = {"partitions": 10, "round": 1, "guarantee": V1, "failure": "no end"}
    text = page(report(a_round(0, V1), a_round(0, V2), failed, a_round(1, V2)))
    assert "- 10 partitions, `exactly_once`, round 2: failed: no end" in text
    assert "1.00 (1.00)" in text
    assert "None." not in text


def test_without_an_odd_round_that_is_said() -> None:
    assert page(report(a_round(0, V1), a_round(0, V2))).endswith("None.\n")
