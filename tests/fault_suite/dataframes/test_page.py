"""docs/measured/dataframe-faults.md says what the ledger holds, and no more."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.fault_suite.dataframes.ledger import DataframeEntry, append, read
from tests.fault_suite.dataframes.page import PAGE, page

RUN = DataframeEntry(
    seed=7,
    queries={"window": 2, "join": 1},
    faults=12,
    not_done=1,
    by_kind={"driver killed": 8, "executor killed at SENT": 4},
    refusals={"a newer driver has taken over": 1},
    rows=120_000,
    outputs=90_000,
    lost=0,
    duplicated=0,
    wrong=0,
    seconds=600,
    failure=None,
    commit="0123456789abcdef",
    changed_since_commit=False,
    date="2026-01-02T03:04:05+00:00",
    versions={"kafka": "4.3.1"},
)


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_the_page_is_made_of_the_ledger() -> None:
    assert PAGE.read_text("utf-8") == page(read()), "make it again: make numbers"


def test_an_empty_ledger_is_no_row_of_zeros() -> None:
    assert "Nothing is in the ledger yet." in page([])
    assert rows_of(page([])) == []


def test_runs_are_summed_and_a_failed_one_is_shown(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    failed = msgspec.structs.replace(RUN, seed=8, lost=3, wrong=1, failure="query | x", changed_since_commit=True)
    for entry in (RUN, failed):
        append(entry, ledger)
    found = read(ledger)
    assert [entry.is_exact for entry in found] == [True, False]
    rows = rows_of(page(found))
    assert ["input rows", "240,000"] in rows
    assert ["runs that failed", "1"] in rows
    assert ["rows lost", "3"] in rows
    assert ["executor killed at SENT", "8"] in rows
    assert ["window", "4"] in rows
    (row,) = [row for row in rows if row[1:2] == ["8"] and len(row) > 2]
    assert row[-2:] == ["**3 lost; 1 wrong; `query / x`**", "`0123456789`, changed"]
