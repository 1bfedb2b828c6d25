"""The record of migrations (app/core/product.py)."""

from __future__ import annotations

from collections.abc import Mapping

from app.products.migrations.api import foreign_schemas, migration_schemas  # first: they declare what routes show

# isort: split
from app.core.product import PipelineLink, Product, Routes, ServerParts, Tag
from app.core.runs.mode import mode_of
from app.kit.loops.supervisor import Loop
from app.kit.web.pages.navigation import Door, Place
from app.products.migrations import tones
from app.products.migrations.api import foreign as foreign_api
from app.products.migrations.api import migrations as migrations_api
from app.products.migrations.loop import MigrationDriver
from app.products.migrations.pages import acts, foreign, migrations, plans
from app.products.migrations.ports import MigrationQuestions
from app.products.migrations.service import guard
from app.products.migrations.service.questions import BrokerActs, BrokerQuestions

__all__ = ["MIGRATIONS", "foreign_schemas", "migration_schemas"]


def _parts(server: ServerParts) -> Mapping[type, object]:
    questions = BrokerQuestions(
        unit_of_work=server.unit_of_work,
        brokers=server.brokers,
        transactions=server.transactions,
        surveys=server.surveys,
        observations=server.observations,
        clock=server.clock,
    )
    return {MigrationQuestions: questions}


def _loops(server: ServerParts) -> tuple[Loop, ...]:
    driver = MigrationDriver(
        unit_of_work=server.unit_of_work,
        observations=server.observations,
        acts=BrokerActs(
            unit_of_work=server.unit_of_work,
            brokers=server.transactions,
            observations=server.observations,
            clock=server.clock,
        ),
        questions=server.part(MigrationQuestions),
        clock=server.clock,
        where=server.where,
    )
    return (driver,)


MIGRATIONS = Product(
    name="migrations",
    api=(Routes(after="runs", routers=(migrations_api.router, foreign_api.router)),),
    tags=(
        Tag(
            after="runs",
            name="migrations",
            text="Changes of a running pipeline between modes, stage by stage, each with its evidence.",
        ),
    ),
    # `/migrations/foreign` and `/migrations/plan` before `/migrations/{id}`.
    pages=(Routes(after="runs", routers=(foreign.router, plans.router, acts.router, migrations.router)),),
    navigation=(
        Place(door=Door.PIPELINES, path="/migrations", title="Migrations"),
        Place(door=Door.PIPELINES, path="/foreign-migrations", title=None),
    ),
    pipeline_links=(
        PipelineLink(
            path="migrations",
            title="Migrate",
            order=91,
            within="more",
            about="From exactly_once to exactly_once_v2, or back, while the pipeline runs. Each stage needs evidence.",
            is_shown=lambda definition: mode_of(definition) is not None,
        ),
    ),
    tones=tones.TONES,
    sentences={
        "migration-watched": "Watched from now on. Bounce the instances; "
        "the brokers' evidence for each stage is below.",
        "migration-moved": "Recorded, with the present evidence.",
        "migration-begun": "Started. The preflight only checks; its findings appear below.",
        "migration-paused": "Paused. No step begins; an instance between two leases still gets its next lease.",
        "migration-resumed": "Resumed. The missing conditions are checked again.",
        "migration-turned": "Rolling back, with the same evidence.",
        "migration-aborted": "Aborted. Every instance keeps its mode.",
        "migration-fence": "It is fenced as the next step.",
    },
    loops=_loops,
    loops_after="reconciler",
    parts=_parts,
    busy=guard.why_migrating,
    shut_out=guard.shut_out,
)
