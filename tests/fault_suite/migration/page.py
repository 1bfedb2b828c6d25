"""docs/migration-run.md from what runs have shown: `python -m tests.fault_suite.migration.page`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.domain.migrations.migration import Stage
from tests.fault_suite.ledger import Entry
from tests.fault_suite.migration.result import MigrationRun, Way, read, read_control

PAGE = Path(__file__).parents[3] / "docs" / "migration-run.md"

_BEGINNING = """# A migration under faults

`make migration` takes a pipeline of three instances from `exactly_once` with offsets for the group alone to
`exactly_once_v2`, and then, as another migration, back: on the whole product, with a real server and its Postgres,
Spark, and three brokers, under load. In each of the four bounces an instance, a broker and the server are killed
(`kill -9`) and come back, one while each of the instances begins anew; whom it hits, and when, is drawn from a seed.
Nobody lends a hand: a migration that stops fails the run. Audit and search for hanging transactions are the server's
own.

At the end everything drains and the suite's judge, which shares no code with the loop, reads the brokers' logs. Each
gate is asked for its evidence over REST: every clause open, and for every id a record of the journal with its offset,
and a live task that says that it holds it, or our own fence ([migration.md](migration.md), "The clauses"). Runs that
failed are entered like the others. This page is made of `tests/results/migration.jsonl`.

The negative control is `make migration ARGS=--control`: one process stands still without a generation, with records in
hand, and the others are switched to `exactly_once_v2` in one step, as the product lets whoever insists. When it wakes
up, records come out twice, and the same judge must say so.
"""
_NOTHING = "\nNo run has been made yet.\n"


def page(runs: Sequence[MigrationRun], control: Entry | None = None) -> str:
    """Newest first."""
    return _BEGINNING + _controlled(control) + ("".join(map(_run, reversed(runs))) if runs else _NOTHING)


def _controlled(control: Entry | None) -> str:
    if control is None:
        return "No control has been run yet.\n"
    return (
        f"The newest one, of {control.date}, seed {control.seed}, `{control.commit[:10]}`: duplicated "
        f"{_judged(control.duplicated)} of {control.records:,} records.\n"
    )


def _run(run: MigrationRun) -> str:
    entry = run.entry
    versions = ", ".join(f"{name} {number}" for name, number in sorted(entry.versions.items()))
    figures = {
        "instances, partitions": f"{run.instances}, {run.partitions}",
        "fed": f"{entry.records:,} records in {run.fed_for_s:,.0f} s: {run.fed_per_s:,.0f} a second",
        "came out meanwhile": f"{run.came_out_per_s:,.0f} a second",
        "committed transactions": f"{entry.transactions:,}",
        "lost": _judged(entry.lost),
        "duplicated": _judged(entry.duplicated),
        "torn": _judged(entry.torn),
        "out of order": _judged(entry.out_of_order),
        "contradictions in the offset log": _judged(entry.offset_log),
        "longest stand-still of a partition": f"{entry.longest_standstill_s:g} s",
    }
    if entry.shown_aborted:
        figures["aborted records that brokers have shown"] = f"{entry.shown_aborted:,}"
    verdict = f"**Failed: {'; '.join(run.wrong)}**" if not run.is_exact else "As it was promised."
    return (
        f"\n## {entry.date}, seed {entry.seed}\n\n{verdict}\n\n"
        + (f"Remarked since: {run.remark}\n\n" if run.remark else "")
        + "| | |\n|---|---|\n"
        + "".join(_cells(name, figure) for name, figure in figures.items())
        + f"\n{entry.cluster}; `{entry.commit[:10]}`{', changed' if entry.changed_since_commit else ''}; {versions}.\n"
        + "".join(map(_way, run.ways))
    )


def _way(way: Way) -> str:
    head = (
        f"\nTo {way.goal}: {way.steps} steps, {way.gates} gates with {way.clauses} clauses, all open, proven by "
        f"{way.proofs} records of ids. {way.audited[:1].upper()}{way.audited[1:]}.\n\n"
        if not way.unproven
        else f"\nTo {way.goal}: {way.steps} steps, {way.gates} gates.\n\n"
    )
    rows = [_cells(stage.words, f"{seconds:,.0f} s", _met(way, stage)) for stage, seconds in way.seconds.items()]
    return head + _cells("stage", "took", "what it met") + "|---|---|---|\n" + "".join(rows)


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
    """The page anew, from the file of results."""
    PAGE.write_text(page(read(), read_control()), encoding="utf-8")


if __name__ == "__main__":
    write()
