"""What the sender of deliveries asks of the network and of the folder of secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from app.core.alerts.webhook import Answered


class WebhookPost(Protocol):
    async def __call__(self, url: str, *, headers: Mapping[str, str], body: bytes) -> Answered:
        """The receiver's answer. Raises InvalidError where nothing may be sent, UnavailableError without an answer."""
        ...


class SigningKeys(Protocol):
    async def __call__(self, references: tuple[str, ...]) -> list[bytes]:
        """The keys that the references name now. Raises InvalidError."""
        ...
