"""A log line cannot be forged by quoted names."""

from __future__ import annotations

import logging

from app.edges.main.log_lines import OneLine


def test_a_name_in_a_message_cannot_pass_for_a_line() -> None:
    name = "id\n2026-01-31 09:00:00 ERROR app.kit.loops: all is lost\x1b[2J"
    record = logging.LogRecord("app.kit.loops", logging.INFO, __file__, 1, "fencing of %s", (name,), None)
    line = OneLine("%(levelname)s %(name)s: %(message)s").format(record)
    assert line == "INFO app.kit.loops: fencing of id␊2026-01-31 09:00:00 ERROR app.kit.loops: all is lost␛[2J"


def test_a_traceback_keeps_its_lines() -> None:
    error = ValueError("first\nsecond")
    record = logging.LogRecord("app", logging.ERROR, __file__, 1, "it failed", (), (ValueError, error, None))
    lines = OneLine("%(message)s").format(record).splitlines()
    assert lines[0] == "it failed"
    assert len(lines) > 1
