"""Build the C part for every platform, by Zig's C compiler: the same bytes on every machine. `make native` runs it.

A fresh machine has no compiler, so the files are in the repository. `--check` builds them again, and compares. The JSON
reader (yyjson) comes from a source package, whose hash is checked.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
BUILT = FOLDER / "built"
SOURCES = ("records.c", "arrow.c", "stepped.c", "steps.c", "fields.c", "json.c", "avro.c", "filing.c", "columns.c")
JSON_READER = ("yyjson", "4.0.6", "fcd4dc15c1e39a30bf9fa85d56903029111506860fc3080ab0d81c6c6dacaa8c")
"""The source package with yyjson 0.10.0, its version and its SHA-256 (docs/adr/0034)."""
TARGETS = {
    "linux-x86_64": ("x86_64-linux-gnu.2.17",),
    "linux-aarch64": ("aarch64-linux-gnu.2.17",),
    # Else the file has the path at which it was built.
    "macos-arm64": ("aarch64-macos.11.0", "-Wl,-install_name,@rpath/records.so"),
}
# The strict reader of yyjson alone, with its own conversion of numbers: that of the C library depends on the locale.
JSON_FLAGS = tuple(f"-DYYJSON_DISABLE_{part}=1" for part in ("WRITER", "INCR_READER", "UTILS", "NON_STANDARD"))
COMMON = (
    "-std=c11",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Dyyjson_api=",
    *JSON_FLAGS,
)
FLAGS = ("-O2", "-g0", "-s", "-fno-sanitize=undefined", *COMMON)
# By gcc, whose runtime of the address sanitizer Debian has.
SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover", *COMMON)


def fetch_json_reader(into: Path) -> Path:
    """Return the folder with yyjson.c and yyjson.h. Raises CalledProcessError, and ValueError for another hash."""
    name, version, wanted = JSON_READER
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"),
            *("--disable-pip-version-check", "--dest", str(into), f"{name}=={version}"),
        ],
        check=True,
    )
    archive = into / f"{name}-{version}.tar.gz"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != wanted:
        raise ValueError(f"{archive.name} has SHA-256 {found}, and {wanted} is expected")
    folder = into / "reader"
    folder.mkdir()
    with tarfile.open(archive) as files:
        for file in ("yyjson.c", "yyjson.h"):
            content = files.extractfile(f"{name}-{version}/yyjson/{file}")
            if content is None:
                raise ValueError(f"{archive.name} has no {file}")
            (folder / file).write_bytes(content.read())
    return folder


def compile_with(compiler: list[str], flags: tuple[str, ...], *, reader: Path, into: Path) -> None:
    """Compile all sources into one library. Raises CalledProcessError with the compiler's messages on stderr."""
    with tempfile.TemporaryDirectory() as folder:
        # In one folder, so that no path of this machine is in the file.
        for file in (*FOLDER.glob("*.[ch]"), *reader.glob("*.[ch]")):
            (Path(folder) / file.name).write_bytes(file.read_bytes())
        subprocess.run([*compiler, *flags, "-o", str(into), *SOURCES, "yyjson.c"], cwd=folder, check=True)


def build(platform: str, *, reader: Path, into: Path) -> Path:
    """Build one platform's file."""
    file = into / f"{platform}.so"
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", *TARGETS[platform]]
    compile_with(zig, FLAGS, reader=reader, into=file)
    return file


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        reader = fetch_json_reader(Path(folder))
        match arguments:
            case ["--check"]:
                return _compare(reader, Path(folder))
            case ["--sanitized", into]:
                compile_with(["gcc"], SANITIZED, reader=reader, into=Path(into))
            case _:
                BUILT.mkdir(exist_ok=True)
                for platform in TARGETS:
                    file = build(platform, reader=reader, into=BUILT)
                    sys.stdout.write(f"{file.name}: {file.stat().st_size:,} bytes\n")
    return 0


def _compare(reader: Path, into: Path) -> int:
    built = {platform: build(platform, reader=reader, into=into) for platform in TARGETS}
    differ = [name for name, file in built.items() if file.read_bytes() != (BUILT / file.name).read_bytes()]
    if differ:
        sys.stdout.write(f"{', '.join(differ)}: not what the sources give; run `make native` and commit them\n")
        return 1
    sys.stdout.write(f"{len(TARGETS)} files are what the sources give, byte for byte\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
