"""The coordinator's count of inits shows whether every possible committer has reported."""

from __future__ import annotations

import pytest

from app.core.wire.offset_report import Init
from app.products.offset_log.hearing import unheard_inits

ID = "orders.t.0.0"


def test_every_epoch_has_its_report() -> None:
    assert unheard_inits({ID: [Init(7, 1), Init(7, 0), Init(7, 2)]}, {ID: Init(7, 2)}) == ()


def test_first_owner_of_an_id_that_died_before_its_report_is_missed() -> None:
    assert unheard_inits({ID: [Init(7, 1)]}, {ID: Init(7, 1)}) == (f"no attempt reported {ID} at epoch 0",)


@pytest.mark.parametrize(
    ("heard", "now", "said"),
    [
        ([Init(7, 0), Init(7, 2)], Init(7, 2), "at epoch 1"),
        ([Init(7, 0)], Init(7, 2), "at epoch 1, 2"),
        ([], Init(7, 6), "at epoch 6"),
        ([Init(7, 0)], Init(7, 20), "and 15 more"),
        ([Init(7, 4), Init(9, 1)], Init(9, 1), "at epoch 0"),
        ([Init(7, 4), Init(9, 0)], Init(9, 0), "the last epoch of the old one"),
        ([Init(7, 4)], None, f"does not know {ID}"),
    ],
)
def test_init_without_a_report_makes_gaps_unverifiable(heard: list[Init], now: Init | None, said: str) -> None:
    assert said in " / ".join(unheard_inits({ID: heard}, {ID: now}))


def test_id_that_was_never_initialised_gives_no_reason() -> None:
    assert unheard_inits({}, {ID: None}) == ()
