"""docs/measured/migration-run.md says what the results hold; and what makes a run one that failed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from app.core.runs.mode import Mode
from app.products.migrations.migration import Stage
from tests.fault_suite.migration.drawn import BOUNCES, drawn
from tests.fault_suite.migration.page import PAGE, page
from tests.fault_suite.migration.result import Met, MigrationRun, Way, append, read, read_control
from tests.fault_suite.plan import Kind
from tests.fault_suite.test_page import RUN as ENTRY


def way(goal: Mode, **changes: object) -> Way:
    met = [
        Met(stage=one.stage, kind=one.fault.kind, step="bounce of instance 0 to v2", was_underway=True, at_s=9.0)
        for one in drawn(1)
        if one.stage in BOUNCES[goal]
    ]
    known = Way(
        goal=goal,
        seconds={Stage.PREFLIGHT: 6.0, BOUNCES[goal][0]: 120.0},
        steps=7,
        gates=4,
        clauses=21,
        proofs=36,
        unproven=(),
        alarms=(),
        audited="audit 1: lost 0",
        met=tuple(met),
    )
    return msgspec.structs.replace(known, **changes)


RUN = MigrationRun(
    entry=ENTRY,
    instances=3,
    partitions=6,
    fed_for_s=600.0,
    fed_per_s=5_432.1,
    came_out_per_s=5_400.0,
    ways=tuple(way(goal) for goal in BOUNCES),
)


def test_the_page_is_made_of_the_results() -> None:
    assert PAGE.read_text("utf-8") == page(read(), read_control()), (
        "make it again: python -m tests.fault_suite.migration.page"
    )


def test_a_run_without_results_is_no_row_of_zeros() -> None:
    assert "No run has been made yet." in page([])
    assert "|" not in page([])


def test_a_run_is_listed_with_its_stages_and_their_faults() -> None:
    told = page([RUN])
    assert "Exact." in told
    assert "12,345 records in 600 s: 5,432 a second" in told
    assert "To v2: 7 steps, 4 gates with 21 conditions, all open, proven by 36 records of ids. Audit 1: lost 0." in told
    (row,) = [line for line in told.splitlines() if line.startswith("| first bounce ")]
    assert "| 120 s | " in row
    assert all(f"{kind} at 9 s" in row for kind in (Kind.BROKER_KILLED, Kind.SERVER_KILLED))


def test_a_remark_stands_beside_the_verdict_and_changes_nothing_of_it() -> None:
    failed = msgspec.structs.replace(RUN, ways=RUN.ways[:1], remark="fixed since")
    told = page([failed])
    assert "**Failed**: `group_only: not reached`\n\nCause: fixed since\n" in told


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fed_per_s": 4_999.0}, "fed were 4,999 records a second, not 5,000"),
        ({"ways": RUN.ways[:1]}, "group_only: not reached"),
        ({"ways": (RUN.ways[0], way(Mode.GROUP_ONLY, alarms=("a member woke",)))}, "group_only: a member woke"),
        ({"ways": (RUN.ways[0], way(Mode.GROUP_ONLY, unproven=("no id",)))}, "group_only: no id"),
        (
            {"ways": (way(Mode.V2, met=RUN.ways[0].met[3:]), RUN.ways[1])},
            (
                "first_bounce: not met: broker killed; first_bounce: not met: server killed; "
                "first_bounce: no instance was killed"
            ),
        ),
        ({"entry": msgspec.structs.replace(ENTRY, duplicated=2, failure="duplicated: 2")}, "duplicated: 2"),
    ],
)
def test_a_broken_promise_makes_a_run_a_failed_one(changes: dict[str, object], said: str) -> None:
    assert RUN.is_exact
    run = msgspec.structs.replace(RUN, **changes)
    assert not run.is_exact
    assert f"**Failed**: `{said}`" in page([run])


def test_the_control_is_listed_with_its_duplicates() -> None:
    told = page([], msgspec.structs.replace(ENTRY, duplicated=1_234))
    assert "seed 7, `0123456789`: duplicated 1,234 of 12,345 records." in told
    assert "No control has been run yet." in page([])


def test_runs_are_kept_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "results" / "runs.jsonl"
    append(RUN, path)
    append(msgspec.structs.replace(RUN, instances=4), path)
    assert [run.instances for run in read(path)] == [3, 4]
    assert read(path)[0] == RUN
