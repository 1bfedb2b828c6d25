"""Connections of their own, beside the pool, that stay open for long and notice when the other side is gone."""

from __future__ import annotations

from psycopg.conninfo import make_conninfo
from sqlalchemy import URL


def lasting_conninfo(url: URL, *, application_name: str) -> str:
    """What psycopg connects with; half a minute of silence ends it, instead of the two hours of TCP's defaults."""
    return make_conninfo(
        url.set(drivername="postgresql").render_as_string(hide_password=False),
        application_name=application_name,
        connect_timeout=5,
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
    )
