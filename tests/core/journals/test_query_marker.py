"""Markers of a query among a group's offsets, as workers/dataframes writes them (Marker.java)."""

from __future__ import annotations

import pytest

from app.core.journals.query_marker import QueryMarker, marker_of

PLAN = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@pytest.mark.parametrize(
    ("offset", "metadata", "marker"),
    [
        (43, f"fenceline/1 5b0c6f6e-2f0f 42 2 {PLAN} 10:ab12", QueryMarker(42, 2)),
        (0, "fenceline/1 - -1 1 - -", QueryMarker(-1, 1)),
        (43, f"fenceline/1 q 42 1 {PLAN} - settled by anna: seen", QueryMarker(42, 1)),
        (42, f"fenceline/1 q 42 1 {PLAN} -", None),
        (43, "", None),
        (43, "fenceline/2 q 42 1 p -", None),
        (43, "a note of another client", None),
    ],
)
def test_marker_is_known_by_its_metadata_and_offset(offset: int, metadata: str, marker: QueryMarker | None) -> None:
    assert marker_of(offset, metadata) == marker
