"""The colours of states: deliveries."""

from __future__ import annotations

from app.core.alerts.webhook import DeliveryState

TONES: tuple[tuple[str, str], ...] = (
    (DeliveryState.PENDING, "busy"),
    (DeliveryState.DELIVERED, "good"),
    (DeliveryState.GIVEN_UP, "bad"),
)
