"""Kafka's own command-line tools, run from the same jars as the brokers: what ours is compared with."""

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from app.edges.embedded.java import find_java
from app.edges.embedded.maven import (
    ECJ_JARS,
    KAFKA_JARS,
    KAFKA_STREAMS_JARS,
    KAFKA_TOOLS_JARS,
    OLD_KAFKA_JARS,
    OLD_KAFKA_TOOLS_JARS,
    ensure_jars,
)

_SOURCES = Path(__file__).parent / "java"
# Distinguishes a table from the lines above it.
_FIRST_HEADINGS = ("TransactionalId", "CoordinatorId", "ProducerId", "Topic", "GROUP")
_TOOLS_OF = {KAFKA_JARS: KAFKA_TOOLS_JARS, OLD_KAFKA_JARS: OLD_KAFKA_TOOLS_JARS}


def run_tool(main_class: str, *arguments: str, jars: str = KAFKA_JARS, timeout_s: float = 60.0) -> str:
    """The output of the tool; fails with all of it when the exit code is not 0.

    Args:
        main_class: as the shell scripts of Kafka's distribution name it (`kafka-transactions.sh` runs
            `org.apache.kafka.tools.TransactionsCommand`).
        jars: the manifest of the brokers whose tools are used.
    """
    return _run([*_java(), "-cp", _class_path(jars, _TOOLS_OF[jars]), main_class, *arguments], timeout_s)


def run_program(name: str, *arguments: str, jars: str = KAFKA_JARS, timeout_s: float = 60.0) -> str:
    """The output of a program of tests/support/java, compiled against the client of these jars."""
    with tempfile.TemporaryDirectory(prefix="fenceline-java-") as classes:
        class_path = _compile(source_of(name), _class_path(jars, _TOOLS_OF[jars]), Path(classes), timeout_s)
        return _run([*_java(), "-cp", class_path, name, *arguments], timeout_s)


def compile_streams_program(source: Path, classes: Path, *, timeout_s: float = 60.0) -> str:
    """Compile it against Kafka Streams into this folder; the class path to run it with."""
    return _compile(source, _class_path(KAFKA_JARS, KAFKA_STREAMS_JARS), classes, timeout_s)


@contextmanager
def running_program(name: str, class_path: str, *arguments: str, output: Path) -> Generator[subprocess.Popen[bytes]]:
    """The program as a process that says everything into `output`, killed at the latest when this is left."""
    with output.open("wb") as into:
        process = subprocess.Popen(
            [*_java(), "-cp", class_path, name, *arguments], stdout=into, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def running_tool(main_class: str, *arguments: str, output: Path) -> Generator[subprocess.Popen[bytes]]:
    """A tool of Kafka that goes on until this is left."""
    class_path = _class_path(KAFKA_JARS, KAFKA_TOOLS_JARS)
    with running_program(main_class, class_path, *arguments, output=output) as process:
        yield process


def source_of(name: str) -> Path:
    """The class files of a test program."""
    return _SOURCES / f"{name}.java"


def _compile(source: Path, jars: str, classes: Path, timeout_s: float) -> str:
    (compiler,) = ensure_jars(ECJ_JARS)
    sources = ("-sourcepath", str(source.parent))
    _run([*_java(), "-jar", str(compiler), "-17", "-cp", jars, *sources, "-d", str(classes), str(source)], timeout_s)
    return os.pathsep.join([str(classes), jars])


def _run(command: list[str], timeout_s: float) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert ended.returncode == 0, f"{command} ended with {ended.returncode}: {ended.stderr}{ended.stdout}"
    return ended.stdout


def rows(table: str) -> list[dict[str, str]]:
    """The lines of a tool's table; the headings are one word each."""
    lines = [line.split() for line in table.splitlines() if line.strip()]
    headings = next(line for line in lines if line[0] in _FIRST_HEADINGS)
    after = lines[lines.index(headings) + 1 :]
    return [dict(zip(headings, line, strict=False)) for line in after]


@cache
def _java() -> tuple[str, ...]:
    return (str(find_java(may_fetch=True).executable), "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@cache
def _class_path(*manifests: str) -> str:
    return os.pathsep.join(str(jar) for name in manifests for jar in ensure_jars(name))
