"""The results of one run, and all of them in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from app.core.runs.mode import Mode
from app.products.migrations.migration import Stage
from tests.fault_suite.ledger import Entry
from tests.fault_suite.migration.drawn import BOUNCES, KILLS
from tests.fault_suite.plan import Kind

RESULTS = Path(__file__).parents[2] / "results" / "migration.jsonl"
CONTROL = RESULTS.with_name("migration_control.json")
LEAST_PER_S = 5_000


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that was done. step: the one that had begun last; was_underway: whether it had not ended yet.

    at_s: since the migration began; whom: what was hit, in its order.
    """

    stage: Stage
    kind: Kind
    step: str
    was_underway: bool
    at_s: float
    whom: tuple[str, ...] = ()


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One migration, to its end. seconds: of each stage. proofs: ids with their records, of all gates together.

    gates: those that have opened. unproven: what their evidence lacks, as sentences. audited: the word of the audit.
    """

    goal: Mode
    seconds: dict[Stage, float]
    steps: int
    gates: int
    clauses: int
    proofs: int
    unproven: tuple[str, ...]
    alarms: tuple[str, ...]
    audited: str
    met: tuple[Met, ...]


class MigrationRun(msgspec.Struct, frozen=True, kw_only=True):
    """entry: as of any run of faults. fed_per_s, came_out_per_s: over all the time in which it was fed.

    remark: written by hand, afterwards: why a run failed, and what was fixed since.
    """

    entry: Entry
    instances: int
    partitions: int
    fed_for_s: float
    fed_per_s: float
    came_out_per_s: float
    ways: tuple[Way, ...]
    remark: str = ""

    @property
    def wrong(self) -> list[str]:
        """Everything that is not as it was promised, as sentences."""
        found = [] if self.entry.failure is None else [self.entry.failure]
        found += [f"{way.goal}: {sentence}" for way in self.ways for sentence in (*way.unproven, *way.alarms)]
        for goal, stages in BOUNCES.items():
            way = next((one for one in self.ways if one.goal is goal), None)
            if way is None:
                found.append(f"{goal}: not reached")
                continue
            for stage in stages:
                kinds = {one.kind for one in way.met if one.stage is stage}
                missing = {Kind.BROKER_KILLED, Kind.SERVER_KILLED} - kinds
                found += [f"{stage}: not met: {kind}" for kind in sorted(missing)]
                if not kinds.intersection(KILLS):
                    found.append(f"{stage}: no instance was killed")
        if self.fed_per_s < LEAST_PER_S:
            found.append(f"fed were {self.fed_per_s:,.0f} records a second, not {LEAST_PER_S:,}")
        return found

    @property
    def is_exact(self) -> bool:
        return self.entry.is_exact and not self.wrong


def append(run: MigrationRun, path: Path = RESULTS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(msgspec.json.encode(run) + b"\n")


def read(path: Path = RESULTS) -> Sequence[MigrationRun]:
    """Raises msgspec.ValidationError for a line that is none."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=MigrationRun) for line in path.read_bytes().splitlines()]


def keep_control(entry: Entry) -> None:
    """The newest one alone."""
    CONTROL.write_bytes(msgspec.json.format(msgspec.json.encode(entry)) + b"\n")


def read_control() -> Entry | None:
    return msgspec.json.decode(CONTROL.read_bytes(), type=Entry) if CONTROL.exists() else None
