"""docs/measured/migration-run.md from what runs have shown: `python -m tests.fault_suite.migration.page`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.products.migrations.migration import Stage
from tests.fault_suite.ledger import Entry
from tests.fault_suite.migration.result import MigrationRun, Way, read, read_control
from tests.fault_suite.page import quoted

PAGE = Path(__file__).parents[3] / "docs" / "measured" / "migration-run.md"

_BEGINNING = """# Migration runs under faults

For developers and reviewers: the results of all runs of `make migration`, failed ones included.

A run migrates a pipeline of three instances from `group_only` to `v2` and back ([migration.md](../migration.md)), under
load. Server, Postgres, Spark and three brokers are real. In each of the four bounces an instance, a broker and the
server are killed (`kill -9`) and return, one during each restart of an instance. A seed decides the targets and times.
No user intervenes: a migration that stops fails the run. Audits and the search for hanging transactions are the
server's.

At the end the pipeline drains, and the suite's verifier, which shares no code with the loop, reads the brokers' logs.
REST must have the evidence of each gate. Every condition is open, and every id has a journal record with its offset. It
also has a live task that reported it, or Fenceline's fence. This page is made of `tests/results/migration.jsonl`.

The negative control is `make migration ARGS=--control`. A process without a generation is frozen with records in
progress, and the others are switched to `exactly_once_v2` in one step. After its thaw records are duplicated, and the
verifier must find them.
"""
_NOTHING = "\nNo run has been made yet.\n"


def page(runs: Sequence[MigrationRun], control: Entry | None = None) -> str:
    """Newest first."""
    return _BEGINNING + _controlled(control) + ("".join(map(_run, reversed(runs))) if runs else _NOTHING)


def _controlled(control: Entry | None) -> str:
    if control is None:
        return "No control has been run yet.\n"
    return (
        f"The newest control, of {control.date}, seed {control.seed}, `{control.commit[:10]}`: duplicated "
        f"{_judged(control.duplicated)} of {control.records:,} records.\n"
    )


def _run(run: MigrationRun) -> str:
    entry = run.entry
    versions = ", ".join(f"{name} {number}" for name, number in sorted(entry.versions.items()))
    figures = {
        "instances, partitions": f"{run.instances}, {run.partitions}",
        "input": f"{entry.records:,} records in {run.fed_for_s:,.0f} s: {run.fed_per_s:,.0f} a second",
        "output meanwhile": f"{run.came_out_per_s:,.0f} a second",
        "committed transactions": f"{entry.transactions:,}",
        "lost": _judged(entry.lost),
        "duplicated": _judged(entry.duplicated),
        "torn": _judged(entry.torn),
        "out of order": _judged(entry.out_of_order),
        "contradictions in the offset log": _judged(entry.offset_log),
        "longest gap of a partition": f"{entry.longest_standstill_s:g} s",
    }
    if entry.shown_aborted:
        figures["aborted records that brokers returned"] = f"{entry.shown_aborted:,}"
    verdict = f"**Failed**: {quoted('; '.join(run.wrong))}" if not run.is_exact else "Exact."
    return (
        f"\n## {entry.date}, seed {entry.seed}\n\n{verdict}\n\n"
        + (f"Cause: {run.remark}\n\n" if run.remark else "")
        + "| figure | value |\n|---|---|\n"
        + "".join(_cells(name, figure) for name, figure in figures.items())
        + f"\n{entry.cluster}; `{entry.commit[:10]}`{', changed' if entry.changed_since_commit else ''}; {versions}.\n"
        + "".join(map(_way, run.ways))
    )


def _way(way: Way) -> str:
    head = (
        f"\nTo {way.goal}: {way.steps} steps, {way.gates} gates with {way.clauses} conditions, all open, proven by "
        f"{way.proofs} records of ids. {way.audited[:1].upper()}{way.audited[1:]}.\n\n"
        if not way.unproven
        else f"\nTo {way.goal}: {way.steps} steps, {way.gates} gates.\n\n"
    )
    rows = [_cells(stage.words, f"{seconds:,.0f} s", _met(way, stage)) for stage, seconds in way.seconds.items()]
    return head + _cells("stage", "duration", "faults") + "|---|---|---|\n" + "".join(rows)


def _met(way: Way, stage: Stage) -> str:
    found = [
        f"{one.kind} at {one.at_s:.0f} s ({one.step}{'' if one.was_underway else ', just done'})"
        for one in way.met
        if one.stage is stage
    ]
    return "; ".join(found)


def _judged(number: int | None) -> str:
    return "not judged" if number is None else f"{number:,}"


def _cells(*cells: str) -> str:
    said = (cell.replace("|", "/").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(said)} |\n"


def write() -> None:
    """Make the page again, from the file of results."""
    PAGE.write_text(page(read(), read_control()), encoding="utf-8")


if __name__ == "__main__":
    write()
