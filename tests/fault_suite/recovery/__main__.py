"""`python -m tests.fault_suite.recovery`: the time without records after a loss, for docs/measured/standstill.md."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import msgspec

from app.core.pipelines.pipeline import GroupProtocol
from app.edges.embedded.maven import KAFKA_VERSION
from tests.fault_suite.recovery import page
from tests.fault_suite.recovery.goals import Loss, Measured, Report, Timeouts, table
from tests.fault_suite.recovery.measuring import RECORDS_PER_S, Measuring
from tests.fault_suite.run import end_when_told
from tests.fault_suite.spark_stage.stage import SparkStage

# The defaults of a definition, the session of the suite's brokers for KIP-848, and how often these look.
TIMEOUTS = Timeouts(session_s=10, transaction_s=10, cleanup_s=1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault_suite.recovery", description=__doc__)
    parser.add_argument(
        "--protocol", type=GroupProtocol, choices=list(GroupProtocol), nargs="+", default=list(GroupProtocol)
    )
    parser.add_argument("--loss", type=Loss, choices=list(Loss), nargs="+", default=list(Loss))
    chosen = parser.parse_args()
    end_when_told()
    measured: list[Measured] = []
    for protocol in chosen.protocol:
        with tempfile.TemporaryDirectory(prefix="fenceline-standstill-") as folder:
            session_timeout_ms = round(TIMEOUTS.session_s * 1000)
            stage = SparkStage(0, Path(folder), protocol=protocol, session_timeout_ms=session_timeout_ms)
            with stage:
                say(stage.name)
                measured += Measuring(stage, TIMEOUTS, say).all_of(chosen.loss, keep)
    say(table(measured))
    sys.stdout.write(msgspec.json.encode(measured).decode() + "\n")
    return 0 if all(one.is_kept for one in measured) else 1


def keep(measured: Measured) -> None:
    """With what else is known, and the page of it: at once, since a run may be cut off."""
    known = msgspec.json.decode(page.RESULTS.read_bytes(), type=Report).measured if page.RESULTS.exists() else ()
    replaced = {(one.protocol, one.loss): one for one in (*known, measured)}
    report = Report(
        measured=tuple(replaced[at] for at in ((p, loss) for loss in Loss for p in GroupProtocol) if at in replaced),
        timeouts=TIMEOUTS,
        records_per_s=RECORDS_PER_S,
        versions={
            "kafka": KAFKA_VERSION,
            "confluent-kafka": version("confluent-kafka"),
            "librdkafka": confluent_kafka.libversion()[0],
            "pyspark": version("pyspark"),
            "python": platform.python_version(),
        },
    )
    page.RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    page.write()


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
