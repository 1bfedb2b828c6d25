"""`python -m tests.mutations`: every mutation on a broker, for tests/results and docs/measured/mutations.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from app.core.pipelines.pipeline import GroupProtocol
from app.edges.embedded.kafka import KafkaCluster
from tests.mutations.drawn import Drawn, run
from tests.mutations.mutations import MUTATIONS, Mutation
from tests.mutations.playing import contradiction, play
from tests.mutations.results import PAGE, Result, RunResult, circumstances, read, write
from tests.mutations.switches import Switch
from tests.support.brokers import TEST_BROKER_SETTINGS

_OF_RUNS = GroupProtocol.CLASSIC
"""Its session is the client's own, and short."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--only", type=Switch, action="append", help="this protection; may be repeated")
    parser.add_argument(
        "--protocol", type=GroupProtocol, choices=list(GroupProtocol), default=None, help="of scenes; else each of them"
    )
    parser.add_argument("--scenes", action="store_true", help="no random runs")
    parser.add_argument("--runs", action="store_true", help="no scenes")
    chosen = parser.parse_args()
    wanted = [mutation for mutation in MUTATIONS if chosen.only is None or mutation.protection in chosen.only]
    protocols = list(GroupProtocol) if chosen.protocol is None else [chosen.protocol]
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        if not chosen.runs:
            with KafkaCluster.start(overrides=TEST_BROKER_SETTINGS) as kafka:
                for mutation in wanted:
                    for protocol in protocols:
                        wrong += play_scene(mutation, kafka.bootstrap_servers, protocol, Path(folder))
        if not chosen.scenes:
            for mutation in wanted:
                if isinstance(mutation.drawn, Drawn):
                    wrong += make_run(mutation, mutation.drawn, Path(folder))
    for said in wrong:
        say(said)
    say(f"see {PAGE}")
    return 1 if wrong else 0


def play_scene(mutation: Mutation, bootstrap_servers: str, protocol: GroupProtocol, folder: Path) -> list[str]:
    """Kept at once; what was not as it must be."""
    began_at = time.monotonic()
    played = play(
        mutation,
        bootstrap_servers=bootstrap_servers,
        folder=folder / "scenes" / mutation.protection / protocol,
        protocol=protocol,
        say=say,
    )
    results = read()
    results.scenes.setdefault(mutation.protection, {})[protocol] = Result(
        played, round(time.monotonic() - began_at), circumstances()
    )
    write(results)
    said = contradiction(mutation, played)
    return [] if said is None else [f"{mutation.protection}, {protocol}: {said}"]


def make_run(mutation: Mutation, drawn: Drawn, folder: Path) -> list[str]:
    """The same."""
    began_at = time.monotonic()
    at = folder / "runs" / mutation.protection
    exact = run(drawn, (), folder=at / "as-it-is", protocol=_OF_RUNS)
    say(f"{mutation.protection}, seed {drawn.seed}, as it is: {exact}")
    mutated = run(drawn, mutation.switches, folder=at / "neither", protocol=_OF_RUNS)
    say(f"{mutation.protection}, seed {drawn.seed}, neither: {mutated}")
    results = read()
    results.runs[mutation.protection] = RunResult(
        seed=drawn.seed,
        protocol=_OF_RUNS,
        as_it_is=exact,
        neither=mutated,
        seconds=round(time.monotonic() - began_at),
        under=circumstances(),
    )
    write(results)
    wrong = [] if exact.is_exact else [f"{mutation.protection}, seed {drawn.seed}, as it is: {exact.failure}"]
    if not getattr(mutated, mutation.sees):
        wrong.append(f"{mutation.protection}, seed {drawn.seed}: nothing was {mutation.sees}: {mutated}")
    return wrong


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
