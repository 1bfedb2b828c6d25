"""The package for executors: one zip of `workers` and of the modules of `app` that these import, directly or not.

`fenceline_spark`, the library of DataFrames, is in it under its own name, for drivers of kind `dataframe`.

The same sources give the same bytes: two servers of one release build the same package, and any difference is reported
as a version mismatch.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

_WHOLE = "workers"
"""The folder that is packed completely; its imports of `_FOLLOWED` are packed too."""
_APART = "workers/dataframes"
"""A distribution of its own inside that folder: the library of DataFrames, whose modules do not belong to `workers`."""
_NATIVE = "workers/native/built"
"""The native records of all platforms: an executor need not have the server's."""
_LIBRARY = "fenceline_spark"
_FOLLOWED = "app"
PACKAGE_FILE = "workers/package.json"
"""Version and digest of the package, read by workers/versions.py on both sides."""
DRIVER = "workers.spark.driver"
"""Runs one instance of a pipeline."""
AUDIT = "workers.spark.audit_driver"
"""Carries out one audit."""
_SCRIPTS = {DRIVER: "fenceline_driver.py", AUDIT: "fenceline_audit.py"}
"""A script for spark-submit for each module that has a `main`."""
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
    """Return the folder of `app` and `workers`, in a checkout or an installation."""
    return Path(__file__).parents[3]


def build(*, version: str, into: Path, root: Path | None = None) -> WorkerPackage:
    """Write the package under `into` unless it is there already; safe when two processes build at once."""
    root = root or source_root()
    sources = [(name, (root / name).read_bytes()) for name in source_names(root)]
    sources += [(f"{_NATIVE}/{path.name}", path.read_bytes()) for path in sorted((root / _NATIVE).glob("*.so"))]
    sources += [(f"{_LIBRARY}/{path.name}", path.read_bytes()) for path in _library(root)]
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


def source_names(root: Path) -> list[str]:
    """Return the paths of the package's sources, relative to `root` and sorted.

    Imports are read from the sources, inside functions too: an import of a name that is only computed is not seen. The
    `__init__.py` of every folder above a module goes with it.
    """
    found: set[str] = set()
    packed = [path.relative_to(root) for path in (root / _WHOLE).rglob("*.py")]
    waiting = [path.as_posix() for path in packed if not path.is_relative_to(_APART)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _folders_above(name, root)
            waiting += _imports_of(name, root)
    return sorted(found)


def _library(root: Path) -> list[Path]:
    """Return the modules of the library, without its command. An installation has them at the top."""
    places = (root / _APART / _LIBRARY, root / _LIBRARY)
    found = [sorted(place.glob("*.py")) for place in places]
    return [path for path in found[0] or found[1] if path.name != "__main__.py"]


def _folders_above(name: str, root: Path) -> Iterator[str]:
    for folder in list(Path(name).parents)[:-1]:
        if (root / folder / "__init__.py").is_file():
            yield f"{folder.as_posix()}/__init__.py"


def _imports_of(name: str, root: Path) -> Iterator[str]:
    """Yield the files of `_FOLLOWED` that a source names in its import statements."""
    for node in ast.walk(ast.parse((root / name).read_bytes(), filename=name)):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.module is None or node.level:
                raise ValueError(f"{name}, line {node.lineno}: relative import; name the module from its root")
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for module in modules:
            if module.split(".")[0] == _FOLLOWED:
                path = module.replace(".", "/")
                yield from (file for file in (f"{path}.py", f"{path}/__init__.py") if (root / file).is_file())


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
    """Write the file atomically, so that it is complete whenever it exists."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(name).chmod(0o644)
    Path(name).replace(path)
