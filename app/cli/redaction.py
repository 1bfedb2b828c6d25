"""Takes secrets out of text that leaves the machine: those that are known here by value, others by their shape."""

from __future__ import annotations

import re
from collections.abc import Iterable

REMOVED = "[removed]"
_SHORTEST = 4
"""Shorter values would take ordinary words out of every text."""
_REFERENCE = r"(?!env:FENCELINE_SECRET_|file:[A-Za-z0-9])"
"""References to secrets stay: they say where one is, not what it is."""
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    # Our own tokens, links and sessions by their prefixes; run tokens and others of 256 random bits by their length.
    (re.compile(r"\bfl[tls]_[A-Za-z0-9_-]{20,}"), REMOVED),
    (re.compile(r"(?<![A-Za-z0-9_/.-])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-]|[/.][A-Za-z0-9])"), REMOVED),
    (re.compile(r"://[^\s/:@\"']*:[^\s/@\"']+@"), f"://{REMOVED}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"',;]+"), rf"\1 {REMOVED}"),
    (
        re.compile(
            r"(?i)([\w.-]*(?:password|passwd|secret|token|api[_.-]?key|credential)[\w.-]*[\"']?\s*[:=]\s*)"
            rf"(?:\"{_REFERENCE}[^\"]*\"|'{_REFERENCE}[^']*'|{_REFERENCE}[^\s,;}}\"']+)"
        ),
        rf"\1{REMOVED}",
    ),
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL),
        REMOVED,
    ),
)


def redact(text: str, *, secrets: Iterable[str]) -> str:
    """`text` without the given secrets and what looks like one; too much is taken out rather than too little."""
    for secret in sorted({secret for secret in secrets if len(secret) >= _SHORTEST}, key=len, reverse=True):
        text = text.replace(secret, REMOVED)
    for shape, replacement in _SHAPES:
        text = shape.sub(replacement, text)
    return text
