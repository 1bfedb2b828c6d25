"""Long-lived connections beside the pool, which notice the end of the other side."""

from __future__ import annotations

from psycopg.conninfo import make_conninfo
from sqlalchemy import URL


def lasting_conninfo(url: URL, *, application_name: str) -> str:
    """Return the connection string for psycopg, with a limit of half a minute instead of TCP's two hours."""
    return make_conninfo(
        url.set(drivername="postgresql").render_as_string(hide_password=False),
        application_name=application_name,
        connect_timeout=5,
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
    )
