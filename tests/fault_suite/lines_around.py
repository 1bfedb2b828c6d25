"""Lines of logs around a time, from Python, Spark and librdkafka."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path

_NAMES = ("stderr.log", "stderr", "driver.log", "server.log")
_NEAR_MS = 3_000
_PYTHON = re.compile(r"\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})")
_SPARK = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d")
_LIBRDKAFKA = re.compile(r"%\d\|(\d+)\.(\d{3})\|")


def lines_around(folder: Path, times_ms: Collection[int]) -> Iterator[str]:
    """Lines of workers, drivers and servers below the folder, with the file's name before the first line."""
    for path in sorted(path for path in folder.rglob("*") if path.name in _NAMES and path.is_file()):
        near = list(_near(path.read_text("utf-8", errors="replace").splitlines(), times_ms))
        if near:
            yield f"## {path.relative_to(folder)}"
            yield from near


def _near(lines: Collection[str], times_ms: Collection[int]) -> Iterator[str]:
    is_near = False
    for line in lines:
        # A line without a time belongs to the one before it, as those of a traceback do.
        if (at_ms := time_of(line)) is not None:
            is_near = any(abs(at_ms - time_ms) <= _NEAR_MS for time_ms in times_ms)
        if is_near:
            yield line


def time_of(line: str) -> int | None:
    """When the line was written, in milliseconds since 1970; None where it does not say."""
    if found := _PYTHON.match(line):
        return _local_ms(found[1], "%Y-%m-%d %H:%M:%S") + int(found[2])
    if found := _SPARK.match(line):
        return _local_ms(found[0], "%y/%m/%d %H:%M:%S")
    if found := _LIBRDKAFKA.match(line):
        return int(found[1]) * 1000 + int(found[2])
    return None


def _local_ms(text: str, layout: str) -> int:
    return round(datetime.strptime(text, layout).astimezone().timestamp()) * 1000
