"""Pauses grow to a bound and spread."""

from __future__ import annotations

from app.products.webhooks.retry import DeliveryPace


def test_pauses_double_up_to_the_longest() -> None:
    pace = DeliveryPace(first_s=5, longest_s=900)
    pauses = [pace.pause_s(attempts=attempts, chance=0.5) for attempts in range(1, 11)]
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]
    assert pace.pause_s(attempts=1_000_000, chance=0.5) == 900


def test_pauses_are_spread_by_a_quarter_to_either_side() -> None:
    pace = DeliveryPace(first_s=100)
    assert pace.pause_s(attempts=1, chance=0.0) == 75
    assert pace.pause_s(attempts=1, chance=1.0) == 125


def test_lease_outlives_every_attempt() -> None:
    """Otherwise another server would send a delivery that this one is still sending."""
    assert DeliveryPace().lease_s > 2 * DeliveryPace().timeout_s
