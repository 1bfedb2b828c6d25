"""docs/measured/file-faults.md from the ledger of file pipelines: `make numbers`. No figure is typed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.fault_suite.file_ledger import FileEntry, read
from tests.fault_suite.page import quoted

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "file-faults.md"

_BEGINNING = """# Fault runs of file pipelines

For developers and reviewers: the results of all runs of `make faults STAGE=files`, failed ones included.

Two or three tasks write files into an object store, moto's S3 server behind a proxy ([files.md](../files.md)). Faults
of tasks, brokers, network and requests to the store are drawn from a seed. Afterwards a verifier that shares no code
with the sink opens every file with a committed reference and counts ids. The collector must delete every orphan and
nothing else. [mutations.md](mutations.md) shows the damage without each protection. `make numbers` makes this page of
`tests/results/file_faults.jsonl`.

"""
_REQUESTS = {
    "error": "answered with 503, not executed",
    "lost": "executed; connection closed without an answer",
    "twice": "executed twice",
    "changed": "a byte of the body changed",
    "held": "executed late, at the end of the run",
    "unanswered": "executed at once, answered at the end of the run",
}


def page(entries: Sequence[FileEntry]) -> str:
    if not entries:
        return f"{_BEGINNING}Nothing is in the ledger yet.\n"
    return "".join([_BEGINNING, _sum(entries), _kinds(entries), _requests(entries), _runs(entries)])


def _sum(entries: Sequence[FileEntry]) -> str:
    judged = [entry for entry in entries if entry.lost is not None]
    figures = {
        "runs": len(entries),
        "runs that failed": sum(not entry.is_exact for entry in entries),
        "runs that were not judged": len(entries) - len(judged),
        "faults of tasks, brokers and the network": sum(entry.faults for entry in judged),
        "requests of the store": sum(entry.requests for entry in judged),
        "requests that met a fault": sum(sum(entry.requests_met.values()) for entry in judged),
        "records": sum(entry.records for entry in judged),
        "files with a committed reference": sum(entry.files or 0 for entry in judged),
        "records lost": sum(entry.lost or 0 for entry in judged),
        "records duplicated": sum(entry.duplicated or 0 for entry in judged),
        "dangling references": sum(entry.dangling or 0 for entry in judged),
        "orphans, all collected unless the run failed": sum(entry.orphans or 0 for entry in judged),
    }
    return "| all runs | number |\n|---|---|\n" + "".join(
        _cells(name, f"{number:,}") for name, number in figures.items()
    )


def _kinds(entries: Sequence[FileEntry]) -> str:
    return _counted(
        "Faults", "fault", [{f"`{kind}`": count for kind, count in entry.by_kind.items()} for entry in entries]
    )


def _requests(entries: Sequence[FileEntry]) -> str:
    found = [{_REQUESTS.get(name, name): count for name, count in entry.requests_met.items()} for entry in entries]
    return _counted("Faults of requests", "request", found)


def _counted(title: str, first: str, counts: Sequence[dict[str, int]]) -> str:
    found: Counter[str] = Counter()
    for one in counts:
        found.update(one)
    rows = "".join(_cells(name, f"{count:,}") for name, count in sorted(found.items()))
    return f"\n## {title}\n\n| {first} | number |\n|---|---|\n{rows}"


def _runs(entries: Sequence[FileEntry]) -> str:
    names = ("date", "stage", "seed", "took", "faults", "requests", "records", "files", "orphans", "verdict", "commit")
    rule = f"|{'---|' * len(names)}\n"
    return "\n## Runs\n\n" + _cells(*names) + rule + "".join(map(_run, entries))


def _run(entry: FileEntry) -> str:
    wrong = {"lost": entry.lost, "duplicated": entry.duplicated, "dangling": entry.dangling}
    said = [f"{number:,} {what}" for what, number in wrong.items() if number]
    if entry.lost is None:
        said.append("not judged")
    if entry.failure is not None:
        said.append(quoted(entry.failure))
    return _cells(
        entry.date,
        entry.stage,
        str(entry.seed),
        f"{entry.seconds:,} s",
        f"{entry.faults:,}",
        f"{entry.requests:,}",
        f"{entry.records:,}",
        "not known" if entry.files is None else f"{entry.files:,}",
        "not known" if entry.orphans is None else f"{entry.orphans:,}",
        f"**{'; '.join(said)}**" if said else "nothing lost, duplicated or dangling",
        f"`{entry.commit[:10]}`{', changed' if entry.changed_since_commit else ''}",
    )


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
