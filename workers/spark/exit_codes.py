"""The exit codes of a driver, which spark-submit passes on."""

from __future__ import annotations

from enum import IntEnum


class DriverExitCode(IntEnum):
    DRAINED = 0
    FAILED = 1
    SUPERSEDED = 3
    NO_EXECUTORS = 4
    NOT_GRANTED = 5
    NO_SPECIFICATION = 6
    HOPELESS = 7
