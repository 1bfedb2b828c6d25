"""Where the sources of a query begin: at the group's offsets, and without any at the start position."""

from __future__ import annotations

import json

from app.core.pipelines.pipeline import StartPosition
from tests.support.control_plane import definition
from tests.support.queries import QUERY
from workers.spark.query import source_options

PIPELINE = definition(transform=QUERY, start_position=StartPosition.LATEST)


def test_topic_with_offsets_begins_there_and_others_at_the_start_position() -> None:
    (stream,) = QUERY.streams
    begins = {"in": {"0": 12, "1": -2}, "foreign": {"0": 3}}
    options = source_options(PIPELINE, QUERY, stream, {}, begins)
    assert json.loads(options["startingOffsets"]) == {"in": {"0": 12, "1": -2}}
    for without in ({}, {"foreign": {"0": 3}}):
        assert source_options(PIPELINE, QUERY, stream, {}, without)["startingOffsets"] == "latest"
