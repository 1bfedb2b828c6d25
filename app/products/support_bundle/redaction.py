"""Remove secrets from text that leaves the machine: known ones by value, others by their form."""

from __future__ import annotations

import html
import json
import re
import shlex
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from app.kit.printable import ascii_escapes

REMOVED = "[removed]"
_SHORTEST = 4
"""Shorter values would remove ordinary words from every text."""
_REFERENCE = r"(?!env:FENCELINE_SECRET_|file:[A-Za-z0-9])"
"""References to secrets are kept: they name a place, not the secret."""
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    # Fenceline's tokens, links and sessions by their prefixes; run tokens and other 256-bit secrets by their length.
    (re.compile(r"\bfl[tls]_[A-Za-z0-9_-]{20,}"), REMOVED),
    (re.compile(r"(?<![A-Za-z0-9_/.-])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-]|[/.][A-Za-z0-9])"), REMOVED),
    (re.compile(r"://[^\s/:@\"']*:[^\s/@\"']+@"), f"://{REMOVED}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"',;]+"), rf"\1 {REMOVED}"),
    (
        re.compile(
            r"(?i)([\w.-]*(?:password|passwd|secret|token|api[_.-]?key|credential)[\w.-]*[\"']?\s*[:=]\s*)"
            rf"(?:\"{_REFERENCE}(?:[^\"\\]|\\.)*\"|'{_REFERENCE}(?:[^'\\]|\\.)*'|{_REFERENCE}[^\s,;}}\"']+)"
        ),
        rf"\1{REMOVED}",
    ),
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL),
        REMOVED,
    ),
)


def redact(text: str, *, secrets: Iterable[str]) -> str:
    """Return `text` without the given secrets and their likes; it removes too much rather than too little."""
    written = {form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)}
    # A secret of four spaces is empty when stripped, and would match between all characters.
    for form in sorted((form for form in written if len(form) >= _SHORTEST), key=len, reverse=True):
        text = text.replace(form, REMOVED)
    for shape, replacement in _SHAPES:
        text = shape.sub(replacement, text)
    return text


def _forms(secret: str) -> set[str]:
    """The secret as documents, addresses, pages, logs, headers and shells write it."""
    data = secret.encode("utf-8", "surrogateescape")
    return {
        secret,
        secret.strip(),
        *(json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)),
        ascii_escapes(json.dumps(secret, ensure_ascii=False)[1:-1]),
        json.dumps(json.dumps(secret))[3:-3],
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        repr(data)[2:-1],
        quote(data),
        quote(data, safe=""),
        quote_plus(data),
        quote(data, safe="").lower(),
        html.escape(secret),
        html.escape(secret, quote=False),
        shlex.quote(secret),
        *(encode(data).decode().rstrip("=") for encode in (b64encode, urlsafe_b64encode)),
    }
