"""Pinned jars, fetched once for each user and checked at every use.

A manifest `jars/NAME.txt` lists SHA-256, file name and Maven coordinates. The Ivy among PySpark's own jars downloads
them, or `mvn` where Ivy fails (it may know a company's mirror). Both know their default repository themselves. They get
each jar alone, without its dependencies, so they download exactly what the manifest names.
"""

import contextlib
import fcntl
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from xml.sax.saxutils import quoteattr

from app.edges.embedded.caches import cache_dir
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.java import find_java
from app.edges.embedded.pyspark_package import spark_home

KAFKA_VERSION = "4.3.1"
KAFKA_JARS = f"kafka-{KAFKA_VERSION}"
KAFKA_TOOLS_JARS = f"kafka-tools-{KAFKA_VERSION}"
KAFKA_STREAMS_JARS = f"kafka-streams-{KAFKA_VERSION}"
"""For tests, as another application's client."""
OLD_KAFKA_VERSION = "3.9.2"
"""The last release line that writes journals as brokers before transaction.version 1 did; for tests."""
OLD_KAFKA_JARS = f"kafka-{OLD_KAFKA_VERSION}"
OLD_KAFKA_TOOLS_JARS = f"kafka-tools-{OLD_KAFKA_VERSION}"
ECJ_JARS = "ecj-3.46.100"
SPARK_KAFKA_VERSION = "4.2.0"
"""The version of Spark's Kafka connector, and of PySpark."""
SPARK_KAFKA_JARS = f"spark-sql-kafka-{SPARK_KAFKA_VERSION}"

_DOWNLOAD_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a manifest."""

    sha256: str
    file_name: str
    group: str
    artifact: str
    version: str


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """The progress of a download: `done` of `total` jars, `file_name` the newest one."""

    manifest: str
    done: int
    total: int
    file_name: str


OnProgress = Callable[[FetchProgress], None]


def read_manifest(name: str) -> list[Jar]:
    """The jars of `jars/NAME.txt`; raises EmbeddedError for an unknown name or a line that does not parse."""
    source = resources.files("app.edges.embedded") / "jars" / f"{name}.txt"
    try:
        lines = source.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise EmbeddedError(f"there is no jar manifest named {name}") from None
    return [parse_line(name, line) for line in lines if line.strip() and not line.startswith("#")]


def parse_line(manifest: str, line: str) -> Jar:
    """The jar that one line of a manifest names; raises EmbeddedError with the line that cannot be read."""
    match = re.fullmatch(r"([0-9a-f]{64})  (\S+\.jar)  ([\w.-]+):([\w.-]+):([\w.-]+)", line)
    if match is None:
        raise EmbeddedError(f"jar manifest {manifest}: cannot read the line {line!r}")
    jar = Jar(*match.groups())
    if jar.file_name != f"{jar.artifact}-{jar.version}.jar":
        raise EmbeddedError(f"jar manifest {manifest}: {jar.file_name} is not the file of {jar.artifact}:{jar.version}")
    return jar


def missing_jars(name: str) -> list[Jar]:
    """The manifest's jars that are not in the cache, or are there with another checksum."""
    folder = _folder(name)
    return [jar for jar in read_manifest(name) if _sha256(folder / jar.file_name) != jar.sha256]


def ensure_jars(name: str, *, on_progress: OnProgress | None = None) -> list[Path]:
    """Return the manifest's jars on disk with checked checksums; download missing or damaged ones.

    Two processes may call this at once: one downloads, the other waits and finds the files. A file appears under its
    name only when it is complete and checked.

    Raises:
        EmbeddedError: the download failed, or brought a file with another checksum.
    """
    folder = _folder(name)
    if missing_jars(name):
        with _locked(name):
            # Another process may have fetched them during the wait for the lock.
            if missing := missing_jars(name):
                _fetch(name, missing, folder, on_progress)
    return [folder / jar.file_name for jar in read_manifest(name)]


def _folder(name: str) -> Path:
    return cache_dir() / "jars" / name


@contextlib.contextmanager
def _locked(name: str) -> Generator[None]:
    folder = _folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _fetch(name: str, missing: list[Jar], folder: Path, on_progress: OnProgress | None) -> None:
    """Download into a folder beside the final one, check, then move each file to its name."""
    # The same file system as the target, so that the move is atomic.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as scratch:
        arrived = Path(scratch) / "arrived"
        _download(name, missing, Path(scratch), arrived, on_progress)
        for jar in missing:
            found = _sha256(arrived / jar.file_name)
            if found is None:
                raise EmbeddedError(f"{jar.file_name} did not arrive although the download reported success")
            if found != jar.sha256:
                raise EmbeddedError(
                    f"{jar.file_name} arrived with SHA-256 {found}, but {jar.sha256} is pinned in jars/{name}.txt. "
                    "Nothing of it was kept: a proxy or mirror may have altered it."
                )
        for jar in missing:
            (arrived / jar.file_name).replace(folder / jar.file_name)


def _download(name: str, jars: list[Jar], scratch: Path, target: Path, on_progress: OnProgress | None) -> None:
    attempts: list[str] = []
    for tool, argv in _download_commands(jars, scratch, target):
        exit_code, output = _run_reporting(argv, scratch, name, len(jars), on_progress)
        if exit_code == 0:
            return
        attempts.append(f"{tool} ended with exit code {exit_code}:\n{_tail(output)}")
    raise EmbeddedError(
        f"{len(jars)} jars of {name} could not be downloaded (is there a network, and does Java know its proxy?).\n"
        + "\n".join(attempts)
    )


def _download_commands(jars: list[Jar], scratch: Path, target: Path) -> list[tuple[str, list[str]]]:
    commands = [("Ivy", _ivy_command(jars, scratch, target))]
    if mvn := shutil.which("mvn"):
        commands.append(("mvn", _mvn_command(mvn, jars, scratch, target)))
    return commands


def _ivy_command(jars: list[Jar], scratch: Path, target: Path) -> list[str]:
    settings = scratch / "ivysettings.xml"
    # No root: Ivy's default is Maven Central. Without poms each jar costs one request instead of three.
    settings.write_text(
        '<ivysettings><settings defaultResolver="central"/><resolvers>'
        '<ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers></ivysettings>\n',
        encoding="utf-8",
    )
    module = scratch / "ivy.xml"
    dependencies = "\n".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
        'transitive="false" conf="default-&gt;*"/>'
        for jar in jars
    )
    module.write_text(
        '<ivy-module version="2.0"><info organisation="fenceline" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>\n",
        encoding="utf-8",
    )
    return [
        *(str(find_java(may_fetch=True).executable), "-jar", str(_pyspark_ivy())),
        *("-settings", str(settings), "-cache", str(scratch / "ivy-cache"), "-ivy", str(module)),
        *("-confs", "default", "-types", "jar", "-retrieve", f"{target}/[artifact]-[revision].[ext]"),
    ]


def _mvn_command(mvn: str, jars: list[Jar], scratch: Path, target: Path) -> list[str]:
    dependencies = "\n".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId><version>{jar.version}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for jar in jars
    )
    pom = scratch / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>fenceline</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>\n",
        encoding="utf-8",
    )
    return [mvn, "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={target}"]


def _pyspark_ivy() -> Path:
    found = sorted((spark_home() / "jars").glob("ivy-*.jar"))
    if not found:
        raise EmbeddedError(f"there is no ivy-*.jar among the jars of {spark_home()}")
    return found[-1]


# Ivy: `[SUCCESSFUL ] org.slf4j#slf4j-api;2.0.17!slf4j-api.jar (93ms)`; Maven: `Downloaded from central: …/x-1.jar (…)`.
_ARRIVED = re.compile(r"\[SUCCESSFUL \] \S+#([^;]+);([^!]+)!\S+\.jar|Downloaded from \S+: \S+/([^/\s]+\.jar)")


def _run_reporting(
    argv: list[str], cwd: Path, manifest: str, total: int, on_progress: OnProgress | None
) -> tuple[int, str]:
    """Run a download to its end and report each jar in its output; return exit code and output."""
    output: list[str] = []
    done = 0
    with subprocess.Popen(
        ["timeout", f"{_DOWNLOAD_TIMEOUT_S:.0f}", *argv] if shutil.which("timeout") else argv,
        cwd=cwd,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None  # noqa: S101 - opened with PIPE above
        for line in process.stdout:
            output.append(line)
            if (match := _ARRIVED.search(line)) and on_progress is not None:
                done += 1
                file_name = match[3] or f"{match[1]}-{match[2]}.jar"
                on_progress(FetchProgress(manifest, min(done, total), total, file_name))
    return process.returncode, "".join(output)


def _tail(output: str) -> str:
    return "\n".join(f"  {line}" for line in output.splitlines()[-12:])
