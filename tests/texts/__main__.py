"""`python -m tests.texts`: every finding, one a line; exit code 1 if there is one. `--all` skips no path."""

from __future__ import annotations

import argparse
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.texts.checking import ROOT, Finding, all_paths, check, judge


def findings_of(path: str) -> list[Finding]:
    return list(check(path, (ROOT / path).read_text("utf-8")))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.texts", description="Check the texts of the project.")
    parser.add_argument("paths", nargs="*", help="only these, also if not_rewritten.txt has them")
    parser.add_argument("--all", action="store_true", help="also the paths of not_rewritten.txt")
    arguments = parser.parse_args()
    here = Path(__file__).parent
    lines = (here / "not_rewritten.txt").read_text("utf-8").splitlines()
    skipped = [line for line in lines if line and not line.startswith("#")]
    allowed: list[dict[str, str]] = tomllib.loads((here / "allowed.toml").read_text("utf-8")).get("allowed", [])
    paths: list[str] = arguments.paths or all_paths()
    with ProcessPoolExecutor() as pool:
        findings = [finding for found in pool.map(findings_of, paths, chunksize=20) for finding in found]
    problems = list(judge(findings, paths, [] if arguments.all or arguments.paths else skipped, allowed))
    if arguments.paths:
        problems = [one for one in problems if not one.startswith("allowed.toml")]
    sys.stdout.write("\n".join([*problems, f"{len(problems)} findings in {len(paths)} files\n"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
