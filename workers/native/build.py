"""Build lane.c for every platform, by Zig's C compiler: the same bytes on every machine. `make native` runs it.

A fresh machine has no compiler, so the files are in the repository. `--check` builds them again, and compares.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
BUILT = FOLDER / "built"
SOURCE = "lane.c"
TARGETS = {
    "linux-x86_64": ("x86_64-linux-gnu.2.17",),
    "linux-aarch64": ("aarch64-linux-gnu.2.17",),
    # Else the file has the path at which it was built.
    "macos-arm64": ("aarch64-macos.11.0", "-Wl,-install_name,@rpath/lane.so"),
}
FLAGS = (
    *("-std=c11", "-O2", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", "-s"),
    *("-Wall", "-Wextra", "-Werror", "-fno-sanitize=undefined"),
)


def build(platform: str, into: Path) -> Path:
    """Build one platform's file. Raises CalledProcessError with the compiler's messages on stderr."""
    file = into / f"{platform}.so"
    # From the source's own folder, so that no path of this machine is in the file.
    subprocess.run(
        [sys.executable, "-m", "ziglang", "cc", "-target", *TARGETS[platform], *FLAGS, "-o", str(file), SOURCE],
        cwd=FOLDER,
        check=True,
    )
    return file


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        with tempfile.TemporaryDirectory() as folder:
            differ = [
                platform
                for platform in TARGETS
                if build(platform, Path(folder)).read_bytes() != (BUILT / f"{platform}.so").read_bytes()
            ]
        if differ:
            sys.stdout.write(f"{', '.join(differ)}: not what {SOURCE} gives; run `make native` and commit its files\n")
            return 1
        sys.stdout.write(f"{len(TARGETS)} files are what {SOURCE} gives, byte for byte\n")
        return 0
    BUILT.mkdir(exist_ok=True)
    for platform in TARGETS:
        file = build(platform, BUILT)
        sys.stdout.write(f"{file.name}: {file.stat().st_size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
