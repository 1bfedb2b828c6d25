"""`python -m tests.zombies`: every case on a broker, kept in tests/results and reported in docs/measured/zombies.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.edges.embedded.kafka import KafkaCluster
from tests.fault_suite.freeze_points import Point
from tests.mutations.results import circumstances
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.zombies import results
from tests.zombies.cases import Case, Move, every_case
from tests.zombies.playing import contradiction, play
from tests.zombies.results import PAGE, Result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.zombies", description=__doc__)
    parser.add_argument("--move", type=Move, action="append", help="this one; may be repeated")
    parser.add_argument("--point", type=Point, action="append", help="the same")
    parser.add_argument("--missing", action="store_true", help="only what has not been played yet")
    parser.add_argument("--at-once", type=int, default=4, help="cases that are played side by side: they mostly wait")
    chosen = parser.parse_args()
    known = results.read()
    cases = [
        case
        for case in every_case()
        if (chosen.move is None or case.move in chosen.move)
        and (chosen.point is None or case.point in chosen.point)
        and not (chosen.missing and case in known)
    ]
    lock, wrong, done = threading.Lock(), list[str](), list[Case]()
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaCluster.start(overrides=TEST_BROKER_SETTINGS) as kafka,
        ThreadPoolExecutor(chosen.at_once) as pool,
    ):

        def one(number: int, case: Case) -> None:
            began_at = time.monotonic()
            found = play(case, bootstrap_servers=kafka.bootstrap_servers, folder=Path(folder) / str(number))
            with lock:
                done.append(case)
                seconds = round(time.monotonic() - began_at)
                results.keep(
                    Result(
                        move=case.move,
                        point=case.point,
                        wake=case.wake,
                        protocol=case.protocol,
                        found=found,
                        seconds=seconds,
                        under=circumstances(),
                    )
                )
                said = contradiction(case, found)
                wrong.extend([] if said is None else [said])
                say(f"{len(done)} of {len(cases)}: {case}: {found} ({seconds} s)")

        for played in [pool.submit(one, number, case) for number, case in enumerate(cases)]:
            played.result()
    for said in wrong:
        say(said)
    say(f"see {PAGE}")
    return 1 if wrong else 0


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
