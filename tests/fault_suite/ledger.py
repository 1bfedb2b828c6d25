"""The results of runs, a JSON line each, and all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.fault_suite.freezes import Outlasted, added
from tests.fault_suite.plan import Kind

LEDGER = Path(__file__).parents[2] / "tests" / "results" / "faults.jsonl"


class KindFigures(msgspec.Struct, frozen=True):
    faults: int
    longest_standstill_s: float


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One run. A run that failed is entered too: the ledger must show what it lost.

    faults: those that were done. not_done: drawn ones that found no target any more, or had no effect.
    failure: another error, in a sentence. judged: False where it did not come as far as the whole verdict, so that
    records and transactions show nothing. lost, duplicated, torn, out_of_order: None where that was not judged; for a
    run that did not come to rest all but lost are. changed_since_commit: the commit alone does not identify the run.
    offset_log: contradictions in the tasks' recorded offsets; None where that was not checked.
    shown_aborted: records that brokers have returned though they were aborted, as their own indexes prove. This is no
    failure, since no client can prevent it; None where that was not searched.
    freezes: the number of frozen workers, by point and by outlasted timeouts; None in runs that did not note it.
    """

    faults: int
    not_done: int
    records: int
    transactions: int
    lost: int | None
    duplicated: int | None
    torn: int | None
    out_of_order: int | None
    longest_standstill_s: float
    seed: int
    seconds: int
    cluster: str
    by_kind: dict[Kind, KindFigures]
    failure: str | None
    judged: bool
    commit: str
    changed_since_commit: bool
    date: str
    versions: dict[str, str]
    freezes: dict[str, dict[Outlasted, int]] | None = None
    offset_log: int | None = None
    shown_aborted: int | None = None

    @property
    def is_exact(self) -> bool:
        return (
            self.judged
            and self.failure is None
            and not (self.lost or self.duplicated or self.torn or self.out_of_order or self.offset_log)
        )


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of many runs. A fault that was done counts where its run was judged: its effect is unknown in another.
    Freezes were seen in any case, and an error counts wherever it was found.

    unjudged: runs without a whole verdict; they have failed, too. asked: those whose offset log was checked;
    offset_log: contradictions found in it. looked: those that have searched for aborted records that brokers return;
    shown_aborted: the number of these.
    """

    runs: int
    failed: int
    unjudged: int
    faults: int
    records: int
    transactions: int
    lost: int
    duplicated: int
    torn: int
    out_of_order: int
    longest_standstill_s: float
    by_kind: dict[Kind, KindFigures]
    freezes: dict[str, dict[Outlasted, int]]
    asked: int
    offset_log: int
    looked: int
    shown_aborted: int


def line_of(entry: Entry) -> str:
    return msgspec.json.encode(entry).decode()


def append(entry: Entry, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as ledger:
        ledger.write(line_of(entry) + "\n")


def read(path: Path) -> list[Entry]:
    """Every entry; raises msgspec.ValidationError for a line that is none."""
    return [msgspec.json.decode(line, type=Entry) for line in path.read_text(encoding="utf-8").splitlines()]


def total(entries: Iterable[Entry]) -> Total:
    runs = list(entries)
    faults: Counter[Kind] = Counter()
    longest: dict[Kind, float] = {}
    for run in runs:
        for kind, figures in run.by_kind.items():
            faults[kind] += figures.faults if run.judged else 0
            longest[kind] = max(longest.get(kind, 0.0), figures.longest_standstill_s)
    judged = [run for run in runs if run.judged]
    return Total(
        runs=len(runs),
        failed=sum(not run.is_exact for run in runs),
        unjudged=len(runs) - len(judged),
        faults=sum(run.faults for run in judged),
        records=sum(run.records for run in judged),
        transactions=sum(run.transactions for run in judged),
        lost=sum(run.lost or 0 for run in runs),
        duplicated=sum(run.duplicated or 0 for run in runs),
        torn=sum(run.torn or 0 for run in runs),
        out_of_order=sum(run.out_of_order or 0 for run in runs),
        longest_standstill_s=max((run.longest_standstill_s for run in runs), default=0.0),
        by_kind={kind: KindFigures(faults[kind], longest[kind]) for kind in Kind if kind in longest},
        asked=sum(run.offset_log is not None for run in runs),
        offset_log=sum(run.offset_log or 0 for run in runs),
        looked=sum(run.shown_aborted is not None for run in runs),
        shown_aborted=sum(run.shown_aborted or 0 for run in runs),
        freezes=added([run.freezes for run in judged if run.freezes is not None]),
    )
