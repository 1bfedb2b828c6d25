"""The versions that a process runs, and the refusal when driver and task differ."""

from __future__ import annotations

import importlib.metadata
import pkgutil
import platform

import msgspec

from app.core.wire import protocol

PACKAGE_FILE = "package.json"
"""Written into the package that travels to executors (app/edges/spark/package.py), beside this module."""


class VersionMismatchError(Exception):
    """Driver and task run different versions; the message names both sides of each difference."""


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """`package` is the digest of the code that travelled; it is empty in a checkout, where nothing travels."""

    python: str
    fenceline: str
    package: str
    protocol: int
    confluent_kafka: str


class _Package(msgspec.Struct):
    fenceline: str
    digest: str


def of_this_process() -> Versions:
    """The versions with which this interpreter would run the loop."""
    packed = _packed()
    return Versions(
        python=platform.python_version(),
        fenceline=packed.fenceline if packed else _installed("fenceline"),
        package=packed.digest if packed else "",
        protocol=protocol.CURRENT,
        confluent_kafka=_installed("confluent-kafka"),
    )


def check_same(driver: Versions, task: Versions) -> None:
    """Raise VersionMismatchError unless a task may run what the driver sent: the same package, Python to its minor."""
    differences = [
        f"{name}: driver {ours}, task {theirs}"
        for name, ours, theirs in (
            ("Python", _minor(driver.python), _minor(task.python)),
            ("Fenceline", driver.fenceline, task.fenceline),
            ("Fenceline's package", driver.package, task.package),
            ("protocol version", driver.protocol, task.protocol),
            ("confluent-kafka", driver.confluent_kafka, task.confluent_kafka),
        )
        if ours != theirs
    ]
    if differences:
        raise VersionMismatchError(
            f"driver and executor differ ({'; '.join(differences)}). Install requirements/worker.lock of the server's "
            "release in the executors' Python, or name another Python with the setting FENCELINE_WORKER_PYTHON"
        )


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])


def _installed(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _packed() -> _Package | None:
    try:
        raw = pkgutil.get_data("workers", PACKAGE_FILE)
    except OSError:
        return None
    return msgspec.json.decode(raw, type=_Package) if raw else None
