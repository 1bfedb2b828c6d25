"""The users' application: REST, pages, health, behind the perimeter."""

from __future__ import annotations

from fastapi import FastAPI

from app.web import errors
from app.web.dependencies import Wiring
from app.web.security.perimeter import Perimeter, hosts_of


def create_users_app(wiring: Wiring) -> FastAPI:
    """What people, browsers and the CLI talk to."""
    settings = wiring.settings
    app = FastAPI(
        title="Fenceline",
        version=wiring.version,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        max_body_size=settings.request_limit_kib * 1024,
    )
    app.state.wiring = wiring
    errors.install(app)
    app.add_middleware(
        Perimeter,
        hosts=hosts_of(settings),
        trusted_proxies=settings.trusted_proxies,
        public_url=settings.public_url,
    )
    return app
