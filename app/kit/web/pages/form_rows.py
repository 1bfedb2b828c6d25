"""Lists in a form: rows whose fields have the list's name, their index and their part, `transform.steps.2.value`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_PLACE = re.compile(r"(.+)\.([0-9]{1,4})\.(\w+)", re.ASCII)


def rows_of(values: Mapping[str, str], path: str) -> list[dict[str, str]]:
    """Return the rows' fields in order; gaps in the numbering, after a removed row, are closed."""
    found: dict[int, dict[str, str]] = {}
    for name, value in values.items():
        if (match := _PLACE.fullmatch(name)) and match[1] == path:
            found.setdefault(int(match[2]), {})[match[3]] = value
    return [found[index] for index in sorted(found)]


def with_rows(values: Mapping[str, str], path: str, rows: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return `values` with these rows instead of its own."""
    kept = {
        name: value for name, value in values.items() if not ((match := _PLACE.fullmatch(name)) and match[1] == path)
    }
    for index, row in enumerate(rows):
        kept |= {f"{path}.{index}.{part}": value for part, value in row.items()}
    return kept


def without_row(rows: list[dict[str, str]], index: str) -> list[dict[str, str]]:
    """Return all rows but the one at that index, given as text."""
    return [row for place, row in enumerate(rows) if str(place) != index]
