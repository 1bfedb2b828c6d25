"""docs/measured/file-faults.md says what the ledger holds, and no more."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.fault_suite.file_ledger import FileEntry, append, read
from tests.fault_suite.file_page import PAGE, page

RUN = FileEntry(
    seed=7,
    stage="three brokers",
    faults=3,
    not_done=0,
    by_kind={"worker killed": 2, "slow": 1},
    requests=1_200,
    requests_met={"error": 40, "held": 2},
    records=12_345,
    files=60,
    lost=0,
    duplicated=0,
    dangling=0,
    orphans=4,
    seconds=120,
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


def test_runs_are_summed_and_each_is_listed(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    for entry in (RUN, msgspec.structs.replace(RUN, seed=8, records=1)):
        append(entry, ledger)
    rows = rows_of(page(read(ledger)))
    assert ["records", "12,346"] in rows
    assert ["runs that failed", "0"] in rows
    assert ["`worker killed`", "4"] in rows
    assert ["requests that met a fault", "84"] in rows
    assert ["answered with 503, not executed", "80"] in rows
    assert [row[2] for row in rows if row[1:2] == ["three brokers"]] == ["7", "8"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lost": 3}, "**3 lost**"),
        ({"dangling": 1}, "**1 dangling**"),
        ({"failure": "an orphan | was left"}, "**`an orphan / was left`**"),
        ({"lost": None, "duplicated": None, "dangling": None, "failure": "no rest"}, "**not judged; `no rest`**"),
    ],
)
def test_an_error_is_listed_and_counts_as_failed(change: dict[str, int | str | None], said: str) -> None:
    rows = rows_of(page([msgspec.structs.replace(RUN, **change)]))
    assert ["runs that failed", "1"] in rows
    assert any(said in row for row in rows)
