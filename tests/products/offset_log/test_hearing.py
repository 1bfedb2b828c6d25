"""The coordinator's count of inits says whether everybody was heard who can have committed."""

from __future__ import annotations

import pytest

from app.core.wire.offset_report import Init
from app.products.offset_log.hearing import unheard_inits

ID = "orders.t.0.0"


def test_every_epoch_was_somebodys_who_told_of_it() -> None:
    assert unheard_inits({ID: [Init(7, 1), Init(7, 0), Init(7, 2)]}, {ID: Init(7, 2)}) == ()


def test_first_who_had_an_id_and_died_before_he_could_tell_is_missed() -> None:
    assert unheard_inits({ID: [Init(7, 1)]}, {ID: Init(7, 1)}) == (f"nothing was heard of who had {ID} at epoch 0",)


@pytest.mark.parametrize(
    ("heard", "now", "said"),
    [
        ([Init(7, 0), Init(7, 2)], Init(7, 2), "at epoch 1"),
        ([Init(7, 0)], Init(7, 2), "at epoch 1, 2"),
        ([], Init(7, 6), "at epoch 6"),
        ([Init(7, 0)], Init(7, 20), "and 15 more"),
        ([Init(7, 4), Init(9, 1)], Init(9, 1), "at epoch 0"),
        ([Init(7, 4), Init(9, 0)], Init(9, 0), "how far the epochs of the old one went"),
        ([Init(7, 4)], None, f"does not know {ID}"),
    ],
)
def test_init_that_nobody_told_of_is_a_reason_to_doubt(heard: list[Init], now: Init | None, said: str) -> None:
    assert said in " / ".join(unheard_inits({ID: heard}, {ID: now}))


def test_id_that_nobody_has_ever_had_is_none() -> None:
    assert unheard_inits({}, {ID: None}) == ()
