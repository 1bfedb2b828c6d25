"""Lists in a form: rows whose fields are named by the list, their place and their part, `transform.steps.2.value`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_PLACE = re.compile(r"(.+)\.([0-9]{1,4})\.(\w+)", re.ASCII)


def rows_of(values: Mapping[str, str], path: str) -> list[dict[str, str]]:
    """The rows' fields, in order; gaps in the numbering, as a removed row leaves them, are closed."""
    found: dict[int, dict[str, str]] = {}
    for name, value in values.items():
        if (match := _PLACE.fullmatch(name)) and match[1] == path:
            found.setdefault(int(match[2]), {})[match[3]] = value
    return [found[index] for index in sorted(found)]


def with_rows(values: Mapping[str, str], path: str, rows: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """`values` with these rows instead of its own."""
    kept = {
        name: value for name, value in values.items() if not ((match := _PLACE.fullmatch(name)) and match[1] == path)
    }
    for index, row in enumerate(rows):
        kept |= {f"{path}.{index}.{part}": value for part, value in row.items()}
    return kept


def without_row(rows: list[dict[str, str]], index: str) -> list[dict[str, str]]:
    """All but the one at that place, which came as text."""
    return [row for place, row in enumerate(rows) if str(place) != index]
