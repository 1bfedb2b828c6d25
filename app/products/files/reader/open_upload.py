"""A multipart upload that is not complete."""

from __future__ import annotations

import msgspec


class OpenUpload(msgspec.Struct, frozen=True, kw_only=True):
    """Neither completed nor aborted; its parts use space that no listing shows."""

    path: str
    upload_id: str
    begun_ms: int
