"""`python -m tests.mutations`: every mutation on a broker, kept in tests/results and told in docs/mutations.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from app.domain.pipelines.pipeline import GroupProtocol
from app.embedded.kafka import KafkaCluster
from tests.mutations.mutations import MUTATIONS
from tests.mutations.playing import contradiction, play
from tests.mutations.results import PAGE, Result, circumstances, keep
from tests.mutations.switches import Switch
from tests.support.brokers import TEST_BROKER_SETTINGS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--only", type=Switch, action="append", help="this protection; may be said several times")
    parser.add_argument(
        "--protocol", type=GroupProtocol, choices=list(GroupProtocol), default=None, help="else each of them"
    )
    chosen = parser.parse_args()
    wanted = [mutation for mutation in MUTATIONS if chosen.only is None or mutation.protection in chosen.only]
    protocols = list(GroupProtocol) if chosen.protocol is None else [chosen.protocol]
    wrong = 0
    with KafkaCluster.start(overrides=TEST_BROKER_SETTINGS) as kafka, tempfile.TemporaryDirectory() as folder:
        for mutation in wanted:
            for protocol in protocols:
                began_at = time.monotonic()
                played = play(
                    mutation,
                    bootstrap_servers=kafka.bootstrap_servers,
                    folder=Path(folder) / mutation.protection / protocol,
                    protocol=protocol,
                    say=say,
                )
                seconds = round(time.monotonic() - began_at)
                keep(mutation.protection, protocol, Result(played, seconds, circumstances()))
                if (said := contradiction(mutation, played)) is not None:
                    wrong += 1
                    say(f"{mutation.protection}, {protocol}: {said}")
    say(f"{len(wanted) * len(protocols)} played, {wrong} not as they must be; see {PAGE}")
    return 1 if wrong else 0


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
