"""The goals as figures, and the report of a figure beyond one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from app.core.pipelines.pipeline import GroupProtocol
from tests.fault_suite.recovery import page
from tests.fault_suite.recovery.__main__ import keep
from tests.fault_suite.recovery.goals import Loss, Measured, Timeouts, bound_s, table
from tests.fault_suite.recovery.static_members import End, Membership, Tried

TIMEOUTS = Timeouts(session_s=10, transaction_s=12, cleanup_s=1)


@pytest.mark.parametrize(
    ("loss", "classic", "consumer"),
    [
        (Loss.DRAINED, 5, 5),
        (Loss.KILLED, 2, 4),
        (Loss.KILLED_SERVER_AWAY, 16, 16),
        (Loss.EXECUTOR_KILLED, 3, 5),
        (Loss.EXECUTOR_KILLED_SERVER_AWAY, 3, 5),
    ],
)
def test_a_loss_has_its_bound(loss: Loss, classic: float, consumer: float) -> None:
    assert bound_s(loss, GroupProtocol.CLASSIC, TIMEOUTS) == classic
    assert bound_s(loss, GroupProtocol.CONSUMER, TIMEOUTS) == consumer


def test_where_the_session_is_longer_it_bounds_losses_without_a_fencing() -> None:
    timeouts = Timeouts(session_s=45, transaction_s=10, cleanup_s=10)
    assert bound_s(Loss.KILLED_SERVER_AWAY, GroupProtocol.CLASSIC, timeouts) == 48


def measured(standstill_s: float) -> Measured:
    return Measured(
        loss=Loss.DRAINED,
        protocol=GroupProtocol.CLASSIC,
        standstill_s=standstill_s,
        bound_s=5,
        commit="abc",
        date="2026-11-22T05:00:00+00:00",
    )


def test_a_bound_that_was_not_kept_stands_out() -> None:
    assert table([measured(5.0), measured(5.1)]).splitlines()[2:] == [
        "| drained and started again | classic | 5.0 s | 5.0 s | yes |",
        "| drained and started again | classic | 5.1 s | 5.0 s | **no** |",
    ]


def test_the_page_has_the_measured_figures() -> None:
    before = page.PAGE.read_text("utf-8")
    page.write()
    assert page.PAGE.read_text("utf-8") == before, "it was not of the results; it is now"


def test_a_page_without_figures_says_so() -> None:
    assert "Nothing has been measured yet." in page.page(None, [])


def test_a_figure_whose_records_were_not_counted_says_so() -> None:
    (row,) = table([msgspec.structs.replace(measured(1.0), judged=False)]).splitlines()[2:]
    assert row.endswith("| 5.0 s | yes; cut off before the records were counted |")


def test_each_figure_is_kept_as_soon_as_it_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "RESULTS", tmp_path / "standstill.json")
    monkeypatch.setattr(page, "STATIC", tmp_path / "static_members.json")
    monkeypatch.setattr(page, "PAGE", tmp_path / "standstill.md")
    keep(msgspec.structs.replace(measured(1.0), judged=False))
    assert "| drained and started again | classic | 1.0 s |" in page.PAGE.read_text()
    keep(msgspec.structs.replace(measured(2.0), protocol=GroupProtocol.CONSUMER))
    keep(measured(3.0))
    rows = [line for line in page.PAGE.read_text().splitlines() if line.startswith("| drained")]
    assert [row.split("|")[2:4] for row in rows] == [[" classic ", " 3.0 s "], [" consumer ", " 2.0 s "]]
    assert "cut off" not in page.PAGE.read_text()


def test_an_instance_that_does_not_return_is_listed_and_an_untried_loss_is_no_figure() -> None:
    tried = [Tried(End.KILLED_AND_BACK, GroupProtocol.CONSUMER, Membership.STATIC, 6.1, 6.0, "its id is in use")]
    assert "| consumer | not tried | 6.1 s; does not return: `its id is in use` |" in page.page(None, tried)


def test_both_memberships_stand_beside_each_other() -> None:
    tried = [
        Tried(End.DRAINED, GroupProtocol.CLASSIC, membership, standstill_s, 6.0)
        for membership, standstill_s in zip(Membership, (0.51, 6.02), strict=True)
    ]
    assert "| drained, not started again | classic | 0.5 s | 6.0 s |" in page.page(None, tried)
