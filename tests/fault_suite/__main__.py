"""`python -m tests.fault_suite --seed N --minutes M`: a run, judged, printed as a JSON line, entered in the ledger."""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
from pathlib import Path

import msgspec

from app.core.pipelines.pipeline import GroupProtocol, OffsetFencing, ProcessingGuarantee
from tests.fault_suite import file_ledger, ledger
from tests.fault_suite.dataframes import ledger as dataframe_ledger
from tests.fault_suite.dataframes.run import run_dataframes
from tests.fault_suite.file_run import run_files
from tests.fault_suite.plan import Kind
from tests.fault_suite.run import end_when_told, finish, new_folder, run_on
from tests.fault_suite.spark_stage.disk import may_mount
from tests.fault_suite.spark_stage.stage import SparkStage
from tests.fault_suite.task_stage import TaskStage


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault_suite", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="what is drawn by chance; printed first")
    parser.add_argument("--minutes", type=float, default=5.0, help="for how long faults are done (5)")
    parser.add_argument("--faults", type=int, default=None, help="not more than so many")
    parser.add_argument(
        "--stage",
        choices=["tasks", "spark", "files", "dataframes"],
        default="tasks",
        help="tasks of the loop, a whole pipeline, tasks that write files, or queries with DataFrames",
    )
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=3, help="how many (3); under Spark always 3")
    parser.add_argument("--only", type=Kind, nargs="+", default=None, help="these kinds of faults, and no others")
    parser.add_argument(
        "--protocol", type=GroupProtocol, choices=list(GroupProtocol), default=None, help="else the seed draws it"
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the run's folder also where nothing was wrong, and whole logs"
    )
    parser.add_argument("--ledger", type=Path, default=ledger.LEDGER, help=f"where it is entered ({ledger.LEDGER})")
    parser.add_argument(
        "--guarantee",
        type=ProcessingGuarantee,
        choices=list(ProcessingGuarantee),
        default=ProcessingGuarantee.EXACTLY_ONCE_V2,
        help="at_least_once is the negative control: it must fail, and is not entered",
    )
    parser.add_argument(
        "--fencing",
        type=OffsetFencing,
        choices=list(OffsetFencing),
        default=OffsetFencing.GENERATION,
        help="of offsets; group_only with exactly_once in a classic group alone",
    )
    chosen = parser.parse_args()
    if chosen.fencing is OffsetFencing.GROUP_ONLY and (
        chosen.guarantee is not ProcessingGuarantee.EXACTLY_ONCE or chosen.protocol is GroupProtocol.CONSUMER
    ):
        parser.error("group_only is for exactly_once in a classic group")
    if chosen.stage == "files" and (
        chosen.guarantee is ProcessingGuarantee.AT_LEAST_ONCE or chosen.fencing is not OffsetFencing.GENERATION
    ):
        parser.error("files need transactions, and offsets that are fenced by generation")
    end_when_told()
    seed: int = secrets.randbelow(2**32) if chosen.seed is None else chosen.seed
    folder = new_folder(seed)
    say(f"seed {seed}, {chosen.minutes:g} minutes, in {folder}")
    if chosen.stage == "files":
        return _over_files(chosen, seed, folder)
    if chosen.stage == "dataframes":
        return _over_dataframes(chosen, seed, folder)
    entry = run_on(
        _stage(chosen, seed, folder),
        seed=seed,
        folder=folder,
        minutes=chosen.minutes,
        at_most=chosen.faults,
        only=chosen.only,
    )
    if chosen.guarantee is not ProcessingGuarantee.AT_LEAST_ONCE:
        ledger.append(entry, chosen.ledger)
    finish(entry, folder, keeps=chosen.keep)
    if not entry.is_exact:
        say(f"failed: {entry.failure}\nsee {folder}")
    sys.stdout.write(ledger.line_of(entry) + "\n")
    return 0 if entry.is_exact else 1


def _over_files(chosen: argparse.Namespace, seed: int, folder: Path) -> int:
    found = run_files(
        seed,
        folder,
        brokers=chosen.brokers,
        minutes=chosen.minutes,
        at_most=chosen.faults,
        guarantee=chosen.guarantee,
        protocol=chosen.protocol,
    )
    file_ledger.append(found)
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    if not found.is_exact:
        say(f"failed: {found.failure}\nsee {folder}")
        return 1
    if not chosen.keep:
        shutil.rmtree(folder)
    return 0


def _over_dataframes(chosen: argparse.Namespace, seed: int, folder: Path) -> int:
    has_marker = chosen.guarantee is not ProcessingGuarantee.AT_LEAST_ONCE
    found = run_dataframes(seed, folder, minutes=chosen.minutes, at_most=chosen.faults, has_marker=has_marker)
    if has_marker:
        dataframe_ledger.append(found)
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    if not found.is_exact:
        say(f"failed: {found.failure}\nsee {folder}")
        return 1
    if not chosen.keep:
        shutil.rmtree(folder)
    return 0


def _stage(chosen: argparse.Namespace, seed: int, folder: Path) -> TaskStage | SparkStage:
    if chosen.stage == "spark":
        if not may_mount():
            say(f"not root: {Kind.DISK_FULL} is not drawn, and a seed draws other faults than it does for root")
        return SparkStage(seed, folder, guarantee=chosen.guarantee, fencing=chosen.fencing, protocol=chosen.protocol)
    return TaskStage(
        seed,
        folder,
        brokers=chosen.brokers,
        guarantee=chosen.guarantee,
        fencing=chosen.fencing,
        protocol=chosen.protocol,
    )


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
