"""Signatures of deliveries as Standard Webhooks has them: HMAC-SHA256 over id, timestamp and body.

Source: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md, "Signature scheme".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

from app.kit.errors import InvalidError

PREFIX = "whsec_"
_SHORTEST_BYTES = 24
_LONGEST_BYTES = 64


def headers_of(message_id: str, body: bytes, *, timestamp_s: int, keys: Sequence[bytes]) -> dict[str, str]:
    """The three headers of a delivery; one signature for each key, so that a receiver may know either."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    signatures = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def key_of(secret: str, *, reference: str) -> bytes:
    """Return the key of `whsec_…`. Raises InvalidError with the reference, never the secret."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.strip().startswith(PREFIX) or not _SHORTEST_BYTES <= len(key) <= _LONGEST_BYTES:
        raise InvalidError(
            f"{reference} is no webhook secret: expected {PREFIX} and {_SHORTEST_BYTES} to {_LONGEST_BYTES} bytes as "
            "base64. `fenceline webhooks secret` makes one"
        )
    return key
