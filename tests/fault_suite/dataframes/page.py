"""docs/measured/dataframe-faults.md from its ledger: `make numbers`. No figure is typed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.fault_suite.dataframes.ledger import DataframeEntry, read
from tests.fault_suite.page import quoted

PAGE = Path(__file__).parents[3] / "docs" / "measured" / "dataframe-faults.md"

_BEGINNING = """# Fault runs of DataFrames

For developers and reviewers: the results of all runs of `make faults STAGE=dataframes`, failed ones included.

Queries of Structured Streaming write to Kafka with the sink of [dataframes.md](../dataframes.md), on a Spark standalone
cluster. Processes are killed, frozen, held or restarted, at steps and moments that a seed draws. Afterwards the
committed rows are compared, as multisets, with those of an undisturbed query. `make numbers` makes this page of
`tests/results/dataframe_faults.jsonl`.

"""


def page(entries: Sequence[DataframeEntry]) -> str:
    if not entries:
        return f"{_BEGINNING}Nothing is in the ledger yet.\n"
    figures = {
        "runs": len(entries),
        "runs that failed": sum(not entry.is_exact for entry in entries),
        "queries": sum(sum(entry.queries.values()) for entry in entries),
        "faults": sum(entry.faults for entry in entries),
        "input rows": sum(entry.rows for entry in entries),
        "output rows": sum(entry.outputs for entry in entries),
        "rows lost": sum(entry.lost for entry in entries),
        "rows duplicated": sum(entry.duplicated for entry in entries),
        "rows that an undisturbed query does not write": sum(entry.wrong for entry in entries),
    }
    return "".join(
        [
            _BEGINNING,
            _table(("all runs", "number"), ((name, f"{number:,}") for name, number in figures.items())),
            _counted("Faults", "fault", [entry.by_kind for entry in entries]),
            _counted("Queries", "query", [entry.queries for entry in entries]),
            "\n## Runs\n\n",
            _table(("date", "seed", "took", "queries", "faults", "rows", "verdict", "commit"), map(_run, entries)),
        ]
    )


def _run(entry: DataframeEntry) -> tuple[str, ...]:
    wrong = {"lost": entry.lost, "duplicated": entry.duplicated, "wrong": entry.wrong}
    said = [f"{number:,} {what}" for what, number in wrong.items() if number]
    if entry.failure is not None:
        said.append(quoted(entry.failure))
    return (
        entry.date,
        str(entry.seed),
        f"{entry.seconds:,} s",
        f"{sum(entry.queries.values()):,}",
        f"{entry.faults:,}",
        f"{entry.rows:,}",
        f"**{'; '.join(said)}**" if said else "nothing lost, duplicated or wrong",
        f"`{entry.commit[:10]}`{', changed' if entry.changed_since_commit else ''}",
    )


def _counted(title: str, first: str, counts: Iterable[Mapping[str, int]]) -> str:
    found: Counter[str] = Counter()
    for one in counts:
        found.update(one)
    return f"\n## {title}\n\n" + _table((first, "number"), ((name, f"{found[name]:,}") for name in sorted(found)))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("| --- | --- |", "|---|---|")


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
