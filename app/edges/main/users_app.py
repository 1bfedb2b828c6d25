"""The users' application: REST, pages, health, behind the perimeter."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from app.core.access.signed_in import principals_of
from app.core.wiring import Wiring
from app.edges.main import api_routes as api
from app.edges.main import page_routes as pages
from app.edges.main import probes as health
from app.kit.web import errors
from app.kit.web.api.documented import document
from app.kit.web.base_path import BasePath
from app.kit.web.bugs import BugBarrier
from app.kit.web.connection_limit import limits_of_process
from app.kit.web.pages.admission import StreamAdmission
from app.kit.web.pages.assets import Static
from app.kit.web.pages.errors import error_page
from app.kit.web.pages.shared_looks import SharedLooks
from app.kit.web.pages.stream_limit import StreamLimit
from app.kit.web.security.body_limit import BodyLimit
from app.kit.web.security.perimeter import Perimeter, hosts_of


def create_users_app(wiring: Wiring) -> FastAPI:
    """Make the application of users, browsers and the CLI."""
    settings = wiring.settings
    app = FastAPI(
        title="Fenceline",
        version=wiring.version,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        servers=[{"url": settings.base_path}] if settings.base_path else None,
    )
    app.state.wiring = wiring
    app.state.looks = SharedLooks()
    users, _ = limits_of_process()
    app.state.stream_limit = StreamLimit(connections=users.most_of_a_peer)
    app.state.admission = StreamAdmission(lambda secrets: principals_of(wiring, secrets))
    app.router.routes.extend(_routes())
    app.mount("/static", Static(), name="static")
    errors.install(app, page=error_page)
    document(app, tags=api.tags)
    # The last one added is the outermost: nothing reaches the rest, and nothing leaves it, without the perimeter.
    app.add_middleware(BodyLimit, limit_bytes=settings.request_limit_kib * 1024)
    app.add_middleware(BugBarrier)
    app.add_middleware(BasePath, base_path=settings.base_path)
    app.add_middleware(
        Perimeter,
        hosts=hosts_of(settings, [wiring.users_url]),
        trusted_proxies=settings.trusted_proxies,
        public_url=settings.public_url,
    )
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """The routes of every application in this process.

    FastAPI builds the parameters and answers of each route at the first request, which takes half a second for all of
    them. Applications that share the routes need it once.
    """
    router = APIRouter(generate_unique_id_function=_operation_id)
    for included in (health.router, api.router, pages.router):
        router.include_router(included)
    return tuple(router.routes)


def _operation_id(route: APIRoute) -> str:
    """Return the method's name in generated clients."""
    return route.name
