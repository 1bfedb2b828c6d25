"""Fenceline's own files for the browser, addressed by their content, so that they may be cached forever."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC_DIR = Path(__file__).resolve().parents[1] / "static"
STYLESHEETS = tuple(
    f"css/{name}.css"
    for name in (
        "names",
        "base",
        "frame",
        "cards",
        "state",
        "ids",
        "chain",
        "buttons",
        "tables",
        "batches",
        "forms",
        "log",
        "chart",
        "timeline",
        "files",
        "stages",
        "dialog",
        "print",
    )
)
"""In order: later rules win."""
_FOR_EVER = "public, max-age=31536000, immutable"


@cache
def asset_url(path: str) -> str:
    """Return `/static/<path>` with a part of the file's SHA-256, so that new content has a new address."""
    return f"/static/{path}?v={_sha(path).hex()[:16]}"


@cache
def asset_integrity(path: str) -> str:
    """Return the value of `integrity`: the browser refuses a script that differs from the file at the start."""
    return "sha256-" + base64.b64encode(_sha(path)).decode("ascii")


def _sha(path: str) -> bytes:
    return hashlib.sha256((STATIC_DIR / path).read_bytes()).digest()


class Static(StaticFiles):
    """Static files that a browser caches if their address has the hash, and requests again otherwise."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC_DIR)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        by_content = scope["query_string"].startswith(b"v=") and response.status_code == 200
        response.headers["cache-control"] = _FOR_EVER if by_content else "no-cache"
        return response
