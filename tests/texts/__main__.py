"""`python -m tests.texts`: every finding, one a line; exit code 1 if there is one."""

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
    parser.add_argument("paths", nargs="*", help="only these")
    arguments = parser.parse_args()
    here = Path(__file__).parent
    allowed: list[dict[str, str]] = tomllib.loads((here / "allowed.toml").read_text("utf-8")).get("allowed", [])
    paths: list[str] = arguments.paths or all_paths()
    with ProcessPoolExecutor() as pool:
        findings = [finding for found in pool.map(findings_of, paths, chunksize=20) for finding in found]
    problems = list(judge(findings, allowed))
    if arguments.paths:
        problems = [one for one in problems if not one.startswith("allowed.toml")]
    sys.stdout.write("\n".join([*problems, f"{len(problems)} findings in {len(paths)} files\n"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
