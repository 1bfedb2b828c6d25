"""The results of runs over file pipelines, a JSON line each."""

from __future__ import annotations

from pathlib import Path

import msgspec

LEDGER = Path(__file__).parents[2] / "tests" / "results" / "file_faults.jsonl"


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run. A run that failed is entered too.

    faults: of tasks, brokers and the network, those that were done. requests: of the object store, all in all;
    requests_met: how many of them met which fault. lost, duplicated, dangling, orphans: None where it was not judged.
    failure: None only where everything was as it must be, and the collector has taken the orphans and nothing else.
    changed_since_commit: the commit alone does not say what was run.
    """

    seed: int
    stage: str
    faults: int
    not_done: int
    by_kind: dict[str, int]
    requests: int
    requests_met: dict[str, int]
    records: int
    files: int | None
    lost: int | None
    duplicated: int | None
    dangling: int | None
    orphans: int | None
    seconds: int
    failure: str | None
    commit: str
    changed_since_commit: bool
    date: str
    versions: dict[str, str]

    @property
    def is_exact(self) -> bool:
        """Judged, and nothing was wrong."""
        wrong = (self.lost, self.duplicated, self.dangling)
        return self.failure is None and all(found == 0 for found in wrong)


def append(entry: FileEntry, path: Path = LEDGER) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as ledger:
        ledger.write(msgspec.json.encode(entry).decode() + "\n")


def read(path: Path = LEDGER) -> list[FileEntry]:
    """Every entry, none without the file; raises msgspec.ValidationError for a line that is none."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=FileEntry) for line in path.read_text(encoding="utf-8").splitlines()]
