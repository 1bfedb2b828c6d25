"""A file sink in a few words, for revisions, pages and tables."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.pipelines.pipeline import ByDate, ByField, ByHour

Column = ByField | ByDate | ByHour


def describe_columns(columns: Sequence[Column]) -> str:
    """Return the partition columns of files, such as `user (user.id), date and hour`; `nothing` without columns."""
    words = [_describe(column) for column in columns]
    if len(words) < 2:
        return words[0] if words else "nothing"
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _describe(column: Column) -> str:
    """Return its name, with the source of its values in brackets unless the name has it."""
    match column:
        case ByField(name=name, field=field):
            origin = field
        case ByDate(name=name):
            origin = "date"
        case ByHour(name=name):
            origin = "hour"
    return name if name == origin else f"{name} ({origin})"
