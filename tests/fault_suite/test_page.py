"""docs/measured/faults.md says what the ledger holds, and no more."""

from __future__ import annotations

import msgspec

from tests.fault_suite.freezes import Outlasted
from tests.fault_suite.ledger import LEDGER, Entry, KindFigures, read
from tests.fault_suite.page import EXPLAINED, PAGE, page
from tests.fault_suite.plan import Kind

RUN = Entry(
    faults=3,
    not_done=0,
    records=12_345,
    transactions=678,
    lost=0,
    duplicated=0,
    torn=0,
    out_of_order=0,
    longest_standstill_s=9.5,
    seed=7,
    seconds=120,
    cluster="three brokers",
    by_kind={Kind.WORKER_KILLED: KindFigures(2, 9.5), Kind.SLOW: KindFigures(1, 0.4)},
    failure=None,
    judged=True,
    commit="0123456789abcdef",
    changed_since_commit=False,
    date="2026-01-02T03:04:05+00:00",
    versions={"kafka": "4.3.1"},
)


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_the_page_is_made_of_the_ledger() -> None:
    entries = read(LEDGER) if LEDGER.exists() else []
    assert PAGE.read_text("utf-8") == page(entries), "make it again: make numbers"


def test_an_empty_ledger_is_no_row_of_zeros() -> None:
    assert "Nothing is in the ledger yet." in page([])
    assert rows_of(page([])) == []


def test_runs_are_summed_and_each_is_listed() -> None:
    other = msgspec.structs.replace(RUN, seed=8, faults=1, records=1, by_kind={Kind.WORKER_KILLED: KindFigures(1, 4.0)})
    rows = rows_of(page([RUN, other]))
    assert ["records", "12,346"] in rows
    assert ["faults", "4"] in rows
    (killed,) = [row for row in rows if row[0] == f"`{Kind.WORKER_KILLED}`"]
    assert killed[1:3] == ["3", "9.5 s"]
    assert [row[2] for row in rows if row[1:2] == ["three brokers"]] == ["7", "8"]
    assert all(not row[0].startswith(f"`{Kind.BROKER_KILLED}") for row in rows), "what was not done has no row"


def test_outlasted_timeouts_are_listed_for_the_runs_that_noted_them() -> None:
    assert "No run has recorded it yet." in page([RUN])
    noting = msgspec.structs.replace(RUN, freezes={"in-revoke": {Outlasted.SESSION: 2, Outlasted.BOTH: 1}})
    text = page([RUN, noting, noting])
    assert "2 of 3 runs recorded it." in text
    assert ["in-revoke", "0", "4", "0", "2"] in rows_of(text)
    assert ["before-commit", "0", "0", "0", "0"] in rows_of(text), "a point without a freeze is listed too"


def test_aborted_records_that_brokers_returned_are_counted_apart_and_no_failure() -> None:
    looking = msgspec.structs.replace(RUN, seed=8, shown_aborted=0)
    shown = msgspec.structs.replace(RUN, seed=9, shown_aborted=1_750)
    assert "aborted records that brokers returned, of" not in page([RUN]), "not searched: that is no zero"
    text = page([RUN, looking, shown])
    rows = rows_of(text)
    assert ["aborted records that brokers returned, of 2 runs with a check", "1,750"] in rows
    assert ["runs that failed", "0"] in rows
    verdicts = {row[2]: row[-2] for row in rows if row[1:2] == ["three brokers"]}
    fine = "nothing lost, duplicated, torn or out of order"
    assert verdicts == {"7": fine, "8": fine, "9": f"{fine}; 1,750 aborted records returned by brokers"}


def test_an_error_is_listed_with_its_run() -> None:
    failed = msgspec.structs.replace(RUN, lost=5, failure="lost: 5 | such as 0:1", changed_since_commit=True)
    rows = rows_of(page([failed]))
    assert ["runs that failed", "1"] in rows
    assert ["lost", "5"] in rows
    (run,) = [row for row in rows if row[1:2] == ["three brokers"]]
    assert run[-2] == "**5 lost; `lost: 5 / such as 0:1`**"
    assert run[-1] == "`0123456789`, changed"


def test_a_run_without_a_verdict_is_no_row_of_zeros() -> None:
    nothing = dict.fromkeys(("lost", "duplicated", "torn", "out_of_order"))
    unjudged = msgspec.structs.replace(
        RUN, seed=8, judged=False, records=0, transactions=0, failure="no broker", **nothing
    )
    rows = rows_of(page([RUN, unjudged]))
    assert ["of them not judged completely: only their errors count below", "1"] in rows
    assert ["faults", "3"] in rows
    (run,) = [row for row in rows if row[1:3] == ["three brokers", "8"]]
    said = "**not judged: lost, duplicated, torn, out of order; `no broker`**"
    assert run[5:8] == ["not known", "not known", said]


def test_duplicates_of_a_run_that_never_came_to_rest_count_and_its_losses_are_unknown() -> None:
    restless = msgspec.structs.replace(RUN, seed=8, judged=False, lost=None, duplicated=2, failure="never at rest")
    rows = rows_of(page([RUN, restless]))
    assert ["faults", "3"] in rows
    assert ["duplicated", "2"] in rows
    (run,) = [row for row in rows if row[1:3] == ["three brokers", "8"]]
    assert run[5:8] == ["12,345", "678", "**2 duplicated; not judged: lost; `never at rest`**"]


def test_every_kind_of_fault_has_the_bound_of_its_standstill() -> None:
    every = msgspec.structs.replace(RUN, by_kind={kind: KindFigures(1, 1.0) for kind in Kind})
    bounds = {row[0].strip("`"): row[3] for row in rows_of(page([every])) if row[0].strip("`") in set(Kind)}
    assert set(bounds) == set(Kind)
    assert {kind for kind, bound in bounds.items() if bound == "not known"} == set()


def test_a_failed_run_is_explained_or_listed_as_unexplained() -> None:
    assert "failed runs" not in page([RUN])
    assert "seed 7: not understood yet." in page([msgspec.structs.replace(RUN, duplicated=1)])
    for date, why in EXPLAINED.items():
        assert f"{date}, seed 7: {why}" in page([msgspec.structs.replace(RUN, duplicated=1, date=date)])
