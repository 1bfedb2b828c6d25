"""The network and secrets that the sender of deliveries uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from app.core.alerts.webhook import Answered


class WebhookPost(Protocol):
    async def __call__(self, url: str, *, headers: Mapping[str, str], body: bytes) -> Answered:
        """Return the receiver's answer. Raises InvalidError if an address is forbidden, or UnavailableError."""
        ...


class SigningKeys(Protocol):
    async def __call__(self, references: tuple[str, ...]) -> list[bytes]:
        """Return the current keys of the references. Raises InvalidError."""
        ...
