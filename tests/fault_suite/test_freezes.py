"""The timeouts that a frozen worker has outlasted."""

from __future__ import annotations

import pytest

from tests.fault_suite.freeze_points import Point
from tests.fault_suite.freezes import Freezes, Outlasted, Timeouts

CLASSIC = Timeouts(session_s=4, transaction_s=10, look_s=1)


@pytest.mark.parametrize(
    ("timeouts", "stood_s", "outlasted"),
    [
        (CLASSIC, 3.9, Outlasted.NEITHER),
        (CLASSIC, 4.0, Outlasted.SESSION),
        # Past the timeout, and the coordinator may not have looked yet.
        (CLASSIC, 10.9, Outlasted.SESSION),
        (CLASSIC, 11.0, Outlasted.BOTH),
        (Timeouts(session_s=30, transaction_s=10, look_s=1), 12.0, Outlasted.TRANSACTION),
    ],
)
def test_a_frozen_worker_has_outlasted_shorter_timeouts(
    timeouts: Timeouts, stood_s: float, outlasted: Outlasted
) -> None:
    assert timeouts.outlasted(stood_s) is outlasted


def test_freezes_are_counted_by_place_and_the_log_has_the_outlasted_timeouts() -> None:
    freezes = Freezes()
    assert "for 12.5 s: outlasted both of session (4 s)" in freezes.stood(Point.IN_REVOKE, 12.54, CLASSIC)
    freezes.stood(Point.IN_REVOKE, 1.0, CLASSIC)
    freezes.stood(None, 5.0, CLASSIC)
    freezes.stood(Point.BEFORE_COMMIT, 5.0, CLASSIC)
    assert list(freezes.counted.items()) == [
        ("before-commit", {Outlasted.SESSION: 1}),
        ("in-revoke", {Outlasted.NEITHER: 1, Outlasted.BOTH: 1}),
        ("anywhere", {Outlasted.SESSION: 1}),
    ]
