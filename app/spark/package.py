"""What travels to executors: `workers`, `app/domain`, `app/wire` and the empty `app/__init__.py`, as one zip.

The same sources give the same bytes: two servers of one release hand out the same package, and a mismatch is one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

ROOMS = ("workers", "app/domain", "app/wire")
SINGLE_FILES = ("app/__init__.py",)
PACKAGE_FILE = "workers/package.json"
"""Version and digest of the package, read by workers/versions.py on both sides."""
DRIVER = "workers.spark.driver"
"""Runs one instance of a pipeline."""
AUDIT = "workers.spark.audit_driver"
"""Carries out one audit."""
_SCRIPTS = {DRIVER: "fenceline_driver.py", AUDIT: "fenceline_audit.py"}
"""What spark-submit runs: a script for each module that has a `main`."""
_SCRIPT = """\
import sys

from {module} import main

sys.exit(main())
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)


class WorkerPackage(msgspec.Struct, frozen=True, kw_only=True):
    """The zip for `--py-files`, and the scripts that spark-submit runs, by the module whose `main` they call."""

    archive: Path
    entry_points: dict[str, Path]
    digest: str


def source_root() -> Path:
    """The folder in which `app` and `workers` lie, in a checkout and installed alike."""
    return Path(__file__).parent.parent.parent


def build(*, version: str, into: Path, root: Path | None = None) -> WorkerPackage:
    """Write the package under `into` unless it is there already; safe when two processes build at once."""
    root = root or source_root()
    sources = [(name, (root / name).read_bytes()) for name in _source_names(root)]
    digest = _digest(version, sources)
    folder = into / digest[:16]
    package = WorkerPackage(
        archive=folder / "fenceline_workers.zip",
        entry_points={module: folder / script for module, script in _SCRIPTS.items()},
        digest=digest,
    )
    if not all(path.is_file() for path in (package.archive, *package.entry_points.values())):
        folder.mkdir(parents=True, exist_ok=True)
        label = json.dumps({"fenceline": version, "digest": digest[:16]}).encode()
        _write_whole(package.archive, _zip([*sources, (PACKAGE_FILE, label)]))
        for module, script in package.entry_points.items():
            _write_whole(script, _SCRIPT.format(module=module).encode())
    return package


def _source_names(root: Path) -> Iterator[str]:
    yield from SINGLE_FILES
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            yield path.relative_to(root).as_posix()


def _digest(version: str, sources: list[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256(version.encode())
    for name, content in sources:
        digest.update(f"\0{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _zip(files: list[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files):
            entry = zipfile.ZipInfo(name, date_time=_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def _write_whole(path: Path, content: bytes) -> None:
    """Whoever finds the file finds it complete."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(name).chmod(0o644)
    Path(name).replace(path)
