"""The allowed values of a client or Spark option. Values are text, as in a definition."""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

_MAX_LENGTH = 1_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WHOLE = re.compile(r"[0-9]{1,19}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)
_TIME = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>ms|s|m|min|h)", re.ASCII)
_SIZE = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>k|m|g)b?", re.ASCII | re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}
_MIB = {"k": 1 / 1024, "m": 1, "g": 1024}


class ValueRule(Protocol):
    """One kind of value with its bounds."""

    def problem(self, value: str) -> str | None:
        """Return the problem of `value`, as the end of a sentence that begins with the option's name; None if none."""
        ...


class Whole(msgspec.Struct, frozen=True):
    """A whole number from `least` to `most`."""

    least: int
    most: int

    def problem(self, value: str) -> str | None:
        if not _WHOLE.fullmatch(value) or not self.least <= int(value) <= self.most:
            return f"must be a whole number from {self.least} to {self.most}, not `{value}`"
        return None


class Decimal(msgspec.Struct, frozen=True):
    """A number from `least` to `most`, with a decimal point or without."""

    least: float
    most: float

    def problem(self, value: str) -> str | None:
        if not _DECIMAL.fullmatch(value) or not self.least <= float(value) <= self.most:
            return f"must be a number from {self.least:g} to {self.most:g}, not `{value}`"
        return None


class OneOf(msgspec.Struct, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]

    def problem(self, value: str) -> str | None:
        if value not in self.words:
            return f"must be one of {', '.join(self.words)}, not `{value}`"
        return None


class Duration(msgspec.Struct, frozen=True):
    """A Spark time with its unit, such as `120s` or `5min`, from `least_s` to `most_s` seconds."""

    least_s: float
    most_s: float

    def problem(self, value: str) -> str | None:
        match = _TIME.fullmatch(value)
        if match is None or not self.least_s <= int(match["number"]) * _SECONDS[match["unit"]] <= self.most_s:
            return f"must be a time from {self.least_s:g}s to {self.most_s:g}s with its unit, not `{value}`"
        return None


class Size(msgspec.Struct, frozen=True):
    """A Spark size with its unit, such as `512m` or `2g`, from `least_mib` to `most_mib` MiB."""

    least_mib: int
    most_mib: int

    def problem(self, value: str) -> str | None:
        match = _SIZE.fullmatch(value)
        if match is None or not self.least_mib <= int(match["number"]) * _MIB[match["unit"].lower()] <= self.most_mib:
            return f"must be a size from {self.least_mib}m to {self.most_mib}m with its unit, not `{value}`"
        return None


class WordRule(msgspec.Struct, frozen=True):
    """A short name: letters, digits, dot, dash, underscore."""

    def problem(self, value: str) -> str | None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", value, re.ASCII):
            return f"must be a name of letters, digits, `.`, `_` and `-`, not `{value}`"
        return None


class Text(msgspec.Struct, frozen=True):
    """Any text that `unsafe` accepts: for options that only an administrator's list allows."""

    def problem(self, value: str) -> str | None:  # noqa: ARG002 - the protocol's signature
        return None


BOOLEAN = OneOf(("true", "false"))


def unsafe(value: str) -> str | None:
    """Return why no option may have this value, with any rule; None if it may.

    A value that begins with `-` could be read as a flag on a command line.
    """
    if not value.strip():
        return "has no value"
    if value.startswith("-"):
        return f"has the value `{value[:40]}`; values never begin with `-`"
    if len(value) > _MAX_LENGTH:
        return f"has a value of {len(value)} characters; at most {_MAX_LENGTH} are accepted"
    if _CONTROL.search(value):
        return "has a line break or another control character in its value"
    if value != value.strip():
        return "has blanks around its value"
    return None
