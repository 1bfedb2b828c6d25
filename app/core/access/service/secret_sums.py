"""The stored form of a secret: the SHA-256 of 256 random bits. A slow hash would only protect guessable secrets."""

from __future__ import annotations

import hashlib


def sha256_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8")).hexdigest()
