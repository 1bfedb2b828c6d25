"""That nothing hangs is said where all were asked, and nowhere else."""

from __future__ import annotations

from app.domain.hanging.report import SearchReport


def test_what_was_not_asked_yet_is_not_well() -> None:
    assert "not all partitions have been asked about yet" in SearchReport(cluster="c").warning
    assert SearchReport(cluster="c", problem="no broker answers").warning.endswith("for now: no broker answers.")
    assert SearchReport(cluster="c", swept_ms=0).warning == ""
