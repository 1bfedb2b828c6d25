"""The parts of one server, which routes of core and products ask for by type.

@router.post("/…")
async def start(name: str, uow: Uow, wiring: WiringDep, by: Annotated[Principal, may(Verb.START_RUN)]) -> …:
    run = await runs.start_run(uow, …, by=by, now=wiring.clock.now())
    await uow.commit()          # edges commit, services never do
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from app.core.access import signed_in
from app.core.access.service.known_tokens import KnownRunTokens
from app.core.allow_lists.options import AllowedOptions
from app.core.blocked.brokers import TransactionBrokers
from app.core.clusters.brokers import Brokers
from app.core.clusters.surveys import Surveys
from app.core.lag.service import Lags
from app.core.observing.service.held_back import HeldBack
from app.core.observing.service.observations import Observations
from app.core.observing.service.partition_counts import PartitionCounts
from app.core.overview.product_views import NeedsOf, PanelOf
from app.core.product import Product
from app.core.runs.service.worker_words import DroppedFields
from app.core.wire.heartbeat import DriverHeartbeat
from app.kit.access import Principal
from app.kit.web.dependencies import Credential, WebWiring


@dataclass(frozen=True, kw_only=True)
class Wiring(WebWiring):
    """Everything that the web needs from outside. app/edges/main/server.py makes it, `app.state.wiring` keeps it.

    products: the records of all products.
    gone: takes what a current driver reports of its own attempts.
    dropped_fields: what was not taken of workers' messages.
    run_tokens: those that workers sent lately.
    java_home: the Java of drivers; None: this server found none.
    dead_ends: what became of the transactions of dead tasks since this server began, by (cluster, result).
    dead_members: the same of their members.
    """

    brokers: Brokers
    transactions: TransactionBrokers
    observations: Observations
    surveys: Surveys
    products: tuple[Product, ...]
    dead_ends: Callable[[], Mapping[tuple[str, str], int]] = dict
    dead_members: Callable[[], Mapping[tuple[str, str], int]] = dict
    gone: Callable[[DriverHeartbeat], None] = lambda _: None
    lags: Lags = field(default_factory=Lags)
    held_back: HeldBack = field(default_factory=HeldBack)
    partition_counts: PartitionCounts = field(default_factory=PartitionCounts)
    dropped_fields: DroppedFields = field(default_factory=DroppedFields)
    run_tokens: KnownRunTokens = field(default_factory=KnownRunTokens)
    java_home: Path | None = None

    @property
    def needs(self) -> tuple[NeedsOf, ...]:
        """The functions of products that tell of pipelines' needs, in their order."""
        return tuple(product.needs for product in self.products if product.needs is not None)

    @property
    def panels(self) -> tuple[PanelOf, ...]:
        """The functions that make the products' sections of a pipeline's page."""
        return tuple(product.panel for product in self.products if product.panel is not None)

    async def principal_of(self, credential: Credential) -> Principal | None:
        return await signed_in.principal_of(self, credential)

    @property
    def allowed_options(self) -> AllowedOptions:
        """Return the additions of the administrator's settings to the built-in allow-lists."""
        return AllowedOptions(
            consumer=frozenset(self.settings.allowed_consumer_options),
            producer=frozenset(self.settings.allowed_producer_options),
            spark_conf=frozenset(self.settings.allowed_spark_conf),
            spark_masters=frozenset(self.settings.allowed_spark_masters),
            file_roots=frozenset(self.settings.allowed_file_roots),
            baseline_roots=frozenset(self.settings.allowed_baseline_roots),
            jdbc_urls=frozenset(self.settings.allowed_jdbc_urls),
            jdbc_drivers=frozenset(self.settings.allowed_jdbc_drivers),
            python_transforms=self.settings.python_transforms,
            unisolated_validation=self.settings.unisolated_validation,
            secret_paths=self.settings.secret_paths,
            java_home=None if self.java_home is None else str(self.java_home),
        )


def _wiring(request: Request) -> Wiring:
    wiring = request.app.state.wiring
    assert isinstance(wiring, Wiring)  # noqa: S101 - set by the app factory
    return wiring


WiringDep = Annotated[Wiring, Depends(_wiring)]
