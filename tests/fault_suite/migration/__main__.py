"""`python -m tests.fault_suite.migration`: forward and back under load, judged, printed as a JSON line and entered."""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.fault_suite.fault_log import FaultLog
from tests.fault_suite.migration import page
from tests.fault_suite.migration.control import Switching
from tests.fault_suite.migration.course import Migrating
from tests.fault_suite.migration.drawn import drawn
from tests.fault_suite.migration.result import RESULTS, MigrationRun, Way, append, keep_control
from tests.fault_suite.migration.stage import INSTANCES, PARTITIONS, MigrationStage
from tests.fault_suite.run import Course, CutOffError, Do, Run, end_when_told, finish, new_folder

RECORDS_PER_S = 6_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault_suite.migration", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="what is drawn by chance; printed first")
    parser.add_argument("--records-per-s", type=int, default=RECORDS_PER_S, help=f"how many are fed ({RECORDS_PER_S})")
    parser.add_argument("--keep", action="store_true", help="leave the run's folder also where nothing was wrong")
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"where it is entered ({RESULTS})")
    parser.add_argument(
        "--control", action="store_true", help="the switch in one step beside a sleeper instead: it must double records"
    )
    chosen = parser.parse_args()
    end_when_told()
    seed: int = secrets.randbelow(2**32) if chosen.seed is None else chosen.seed
    folder = new_folder(seed)
    say(f"seed {seed}, {chosen.records_per_s:,} records a second, in {folder}")
    if chosen.control:
        return controlled(seed, folder, records_per_s=chosen.records_per_s, keeps=chosen.keep)
    found = migrated(seed, folder, records_per_s=chosen.records_per_s)
    append(found, chosen.results)
    page.write()
    finish(found.entry, folder, keeps=chosen.keep or not found.is_exact)
    if not found.is_exact:
        say(f"failed: {'; '.join(found.wrong)}\nsee {folder}")
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    return 0 if found.is_exact else 1


def migrated(seed: int, folder: Path, *, records_per_s: int) -> MigrationRun:
    """A whole run; every error is in it, an interruption too."""
    stage = MigrationStage(seed, folder)
    ways: list[Way] = []

    def course(do: Do) -> None:
        log = FaultLog(folder / "faults.jsonl")
        Migrating(stage.plane.server, stage.plane.name, list(drawn(seed)), log, teller(), ways).course(do)

    run = through(stage, seed, folder, course, records_per_s=records_per_s)
    flow = run.flow
    return MigrationRun(
        entry=run.entry(stage.name),
        instances=INSTANCES,
        partitions=PARTITIONS,
        fed_for_s=0.0 if flow is None else round(flow.seconds, 1),
        fed_per_s=0.0 if flow is None else round(flow.fed / flow.seconds, 1),
        came_out_per_s=0.0 if flow is None else round(flow.came_out / flow.seconds, 1),
        ways=tuple(ways),
    )


def controlled(seed: int, folder: Path, *, records_per_s: int, keeps: bool) -> int:
    """The control of the judge and of the gates: 0 where records came out twice."""
    stage = MigrationStage(seed, folder)
    run = through(stage, seed, folder, Switching(stage, teller()).course, records_per_s=records_per_s)
    entry = run.entry(stage.name)
    keep_control(entry)
    page.write()
    has_doubled = bool(entry.duplicated)
    if has_doubled and not keeps:
        shutil.rmtree(folder)
    else:
        say(f"{entry.failure}\nsee {folder}")
    sys.stdout.write(msgspec.json.encode(entry).decode() + "\n")
    return 0 if has_doubled else 1


def through(stage: MigrationStage, seed: int, folder: Path, course: Course, *, records_per_s: int) -> Run:
    run = Run(seed, folder)
    try:
        with stage:
            run.through(stage, course, records_per_s=records_per_s, is_keyed=True)
    except (Exception, CutOffError) as error:  # noqa: BLE001 - it is told, and counts as a failure
        run.failed(error)
    return run


def teller() -> Callable[[str], None]:
    began = time.monotonic()
    return lambda text: say(f"[{time.monotonic() - began:.0f}] {text}")


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
