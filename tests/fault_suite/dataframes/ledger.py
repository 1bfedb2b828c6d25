"""The results of runs over queries with DataFrames, a JSON line each."""

from __future__ import annotations

from pathlib import Path

import msgspec

LEDGER = Path(__file__).parents[2] / "results" / "dataframe_faults.jsonl"


class DataframeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run. A run that failed is entered too.

    queries: by kind. faults: those that were done; not_done: those whose moment did not come. rows: of the inputs.
    lost, duplicated, wrong: rows of the outputs compared with an undisturbed query; wrong: rows that it did not write.
    refusals: errors of queries, by their first words. failure: None only where everything was as it must be.
    """

    seed: int
    queries: dict[str, int]
    faults: int
    not_done: int
    by_kind: dict[str, int]
    refusals: dict[str, int]
    rows: int
    outputs: int
    lost: int
    duplicated: int
    wrong: int
    seconds: int
    failure: str | None
    commit: str
    changed_since_commit: bool
    date: str
    versions: dict[str, str]

    @property
    def is_exact(self) -> bool:
        """Nothing was wrong."""
        return self.failure is None and not (self.lost or self.duplicated or self.wrong)


def append(entry: DataframeEntry, path: Path = LEDGER) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as ledger:
        ledger.write(msgspec.json.encode(entry).decode() + "\n")


def read(path: Path = LEDGER) -> list[DataframeEntry]:
    """Every entry, none without the file; raises msgspec.ValidationError for a line that is none."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=DataframeEntry) for line in path.read_text(encoding="utf-8").splitlines()]
