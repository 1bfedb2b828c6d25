"""Kafka's own command-line tools, run from the same jars as the brokers: what ours is compared with."""

import os
import subprocess
from functools import cache

from app.embedded.java import find_java
from app.embedded.maven import KAFKA_JARS, KAFKA_TOOLS_JARS, OLD_KAFKA_JARS, OLD_KAFKA_TOOLS_JARS, ensure_jars

_TOOLS_OF = {KAFKA_JARS: KAFKA_TOOLS_JARS, OLD_KAFKA_JARS: OLD_KAFKA_TOOLS_JARS}


def run_tool(main_class: str, *arguments: str, jars: str = KAFKA_JARS, timeout_s: float = 60.0) -> str:
    """What the tool prints; fails with all that it said when it does not end well.

    Args:
        main_class: as the shell scripts of Kafka's distribution name it (`kafka-transactions.sh` runs
            `org.apache.kafka.tools.TransactionsCommand`).
        jars: the manifest of the brokers whose tools are wanted.
    """
    ended = subprocess.run(
        [*_command(jars), main_class, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert ended.returncode == 0, (
        f"{main_class} {arguments} ended with {ended.returncode}: {ended.stderr}{ended.stdout}"
    )
    return ended.stdout


@cache
def _command(jars: str) -> tuple[str, ...]:
    class_path = os.pathsep.join(str(jar) for jar in [*ensure_jars(jars), *ensure_jars(_TOOLS_OF[jars])])
    java = str(find_java(may_fetch=True).executable)
    return (java, "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path)
