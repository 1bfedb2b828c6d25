"""The record with which a product registers itself: app/products/<name>/product.py has one (docs/products.md).

Core and kit import no product. They ask the records that app/edges/main/products.py lists, in its order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar, cast

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry

from app.core.blocked.brokers import TransactionBrokers
from app.core.clusters.brokers import Brokers
from app.core.clusters.surveys import Surveys
from app.core.observing.service.observations import Observations
from app.core.overview.product_views import NeedsOf, PanelOf
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.pipeline_record import Pipeline
from app.core.runs.hooks import Expire, KeepOffsets, OrderOf, Refusal, ShutOut
from app.core.runs.launcher import DriverFolders
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from app.kit.loops.supervisor import Loop
from app.kit.settings import Settings
from app.kit.web.pages.navigation import ClusterPage, Place

P = TypeVar("P")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ServerParts:
    """The parts of a server from which products make their own.

    where: the host and state folder of this server. workers_urls: the addresses of the workers' listener.
    freeze_self: stops this server's process for some seconds; returns why not, or nothing.
    parts: what products give to each other and to routes, by class.
    """

    settings: Settings
    unit_of_work: UnitOfWorkFactory
    clock: Clock
    brokers: Brokers
    transactions: TransactionBrokers
    observations: Observations
    surveys: Surveys
    host: str
    where: str
    version: str
    users_url: str
    workers_urls: tuple[str, ...]
    freeze_self: Callable[[float], Awaitable[str]]
    parts: Mapping[type, object]

    def part(self, kind: type[P]) -> P:
        """The part of that class. Raises LookupError when there is none."""
        if kind not in self.parts:
            raise LookupError(f"there is no {kind.__name__}: `parts` of a product's record must give one")
        return cast(Any, self.parts[kind])


@dataclass(frozen=True, kw_only=True)
class Routes:
    """Routers of a product. after: the noun of core whose routes stand before them (edges/main, *_routes.py)."""

    after: str
    routers: tuple[APIRouter, ...]


@dataclass(frozen=True, kw_only=True)
class Tag:
    """A heading of the OpenAPI document. after: the tag of core that stands before it (kit/web/api/documented.py)."""

    after: str
    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class PipelineLink:
    """A page of a pipeline: a tab, or a link on the tab `within`.

    path: below `/pipelines/{name}/`. order: its place among the tabs or links. about: its sentence on the tab More.
    """

    path: str
    title: str
    order: int
    within: str = ""
    about: str = ""
    is_shown: Callable[[PipelineDefinition], bool] = lambda _: True


Metrics = Callable[[UnitOfWork, Sequence[Pipeline], datetime], Awaitable[Callable[[CollectorRegistry], None]]]
"""Reads from the database, and returns the function that writes the metrics: without Postgres there are none."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """One product. Every field but the name may be left out.

    name: of its folder. pages: rendered routes. tones: the colour of each state. sentences: shown after a form.
    worker_routes: POST routes of the workers' listener, by path.
    loops: run beside core's. loops_after: the loop of core that stands before them (edges/main/server.py).
    parts: what other products and routes ask for by class. row_parts: the same for services, of a unit of work.
    driver_folders: folders of drivers that are trimmed and removed with those of runs.
    needs, panel: shown on core's pages. expire: deletes old rows. keep_offsets: of heartbeats.
    busy: why the pipeline must not be changed now. disturbed: why no migration may begin now.
    shut_out: when it was proven that no client of a mode is left.
    order_of: the order that a heartbeat's answer brings to an attempt that is drilled.
    """

    name: str
    api: tuple[Routes, ...] = ()
    tags: tuple[Tag, ...] = ()
    pages: tuple[Routes, ...] = ()
    navigation: tuple[Place, ...] = ()
    pipeline_links: tuple[PipelineLink, ...] = ()
    cluster_pages: tuple[ClusterPage, ...] = ()
    tones: Iterable[tuple[str, str]] = ()
    sentences: Mapping[str, str] = field(default_factory=dict[str, str])
    worker_routes: Mapping[str, Callable[..., Awaitable[Response]]] = field(
        default_factory=dict[str, Callable[..., Awaitable[Response]]]
    )
    loops: Callable[[ServerParts], Sequence[Loop]] = lambda _: ()
    loops_after: Literal["reconciler", "folders"] = "folders"
    parts: Callable[[ServerParts], Mapping[type, object]] = lambda _: {}
    row_parts: Mapping[type, object] = field(default_factory=dict[type, object])
    driver_folders: Callable[[ServerParts], DriverFolders] | None = None
    needs: NeedsOf | None = None
    panel: PanelOf | None = None
    metrics: Metrics | None = None
    expire: Expire | None = None
    keep_offsets: KeepOffsets | None = None
    busy: Refusal | None = None
    disturbed: Refusal | None = None
    shut_out: ShutOut | None = None
    order_of: OrderOf | None = None


def placed(core: Mapping[str, Sequence[T]], of_products: Iterable[tuple[str, Sequence[T]]]) -> list[T]:
    """Core's items with each product's after the noun that it names. Raises LookupError for another name."""
    groups = {name: list(items) for name, items in core.items()}
    for after, items in of_products:
        if after not in groups:
            raise LookupError(f"nothing of core is called {after}: `after` is one of {', '.join(groups)}")
        groups[after].extend(items)
    return [item for items in groups.values() for item in items]
