"""The roles contract sees the imports that it forbids, and knows each module of the tree by a role."""

from __future__ import annotations

import pytest
from grimp import ImportGraph

from tests.roles.contract import LIBRARIES, MAY_IMPORT, ROLES, RolesContract, objection, role_of


def graph_of(importer: str, imported: str) -> ImportGraph:
    graph = ImportGraph()
    for module in (importer, imported):
        graph.add_module(module, is_squashed=module in LIBRARIES)
    graph.add_import(importer=importer, imported=imported)
    return graph


def contract() -> RolesContract:
    return RolesContract(name="roles", session_options={}, contract_options={})


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("app.core.runs.rates", "sqlalchemy"),
        ("app.core.runs.rates", "app.core.runs.service.runs"),
        ("app.core.runs.rates", "app.core.runs.store.runs"),
        ("app.core.runs.rates", "app.kit.db.unit_of_work"),
        ("app.core.wire.heartbeat", "fastapi"),
        ("app.products.audits.plan", "app.products.audits.store"),
        ("app.products.audits.plan", "app.products.audits.tables"),
        ("app.products.audits.store", "app.products.audits.service.asking"),
        ("app.products.audits.store", "app.kit.db.unit_of_work"),
        ("app.products.offset_log.retention_store", "app.products.offset_log.service"),
        ("app.products.audits.tables", "app.products.audits.store"),
        ("app.products.audits.service.asking", "app.products.audits.api"),
        ("app.products.audits.service.asking", "app.products.audits.loop"),
        ("app.products.audits.service.asking", "app.products.audits.tables"),
        ("app.products.audits.service.asking", "app.edges.kafka.admin"),
        ("app.core.runs.service.runs", "sqlalchemy"),
        ("app.core.runs.hooks", "app.core.runs.service.busy"),
        ("app.core.runs.loops.reconciler", "app.core.runs.api.runs"),
        ("app.core.runs.loops.reconciler", "app.kit.web.dependencies"),
        ("app.core.runs.pages.runs", "app.core.runs.loops.reconciler"),
        ("app.core.runs.pages.runs", "sqlalchemy"),
        ("app.products.webhooks.metrics", "app.products.webhooks.pages"),
        ("app.core.runs.cli", "app.core.runs.store.runs"),
        ("app.products.webhooks.post", "app.products.webhooks.service"),
        ("app.kit.words", "app.kit.settings"),
        ("app.kit.words", "jinja2"),
        ("app.kit.web.problems", "app.kit.db.connection"),
        ("app.edges.kafka.admin", "app.core.clusters.service"),
        ("app.edges.spark.launcher", "app.core.runs.store.runs"),
        ("app.edges.spark.launcher", "app.kit.db.connection"),
        ("app.edges.db.database", "app.core.runs.store.runs"),
    ],
)
def test_a_forbidden_import_breaks_the_contract(importer: str, imported: str) -> None:
    check = contract().check(graph_of(importer, imported), verbose=False)
    assert not check.kept
    assert [(one, other) for one, other, _ in check.metadata["broken"]] == [(importer, imported)]


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("app.core.runs.rates", "app.kit.back_off"),
        ("app.products.audits.plan", "app.core.pipelines.pipeline"),
        ("app.products.audits.store", "sqlalchemy"),
        ("app.products.audits.service.asking", "app.products.audits.store"),
        ("app.products.audits.product", "app.products.audits.loop"),
        ("app.edges.kafka.admin", "confluent_kafka"),
    ],
)
def test_other_imports_keep_the_contract(importer: str, imported: str) -> None:
    assert contract().check(graph_of(importer, imported), verbose=False).kept


def test_each_role_says_what_it_may_import() -> None:
    assert set(MAY_IMPORT) == {
        "rule",
        "pure",
        "border",
        "database",
        "kit.db",
        "kit.loops",
        "kit.web",
        "kit.cli",
        *ROLES,
    }


@pytest.mark.parametrize(
    ("module", "role"),
    [
        ("app.core.journals.reading", "rule"),
        ("app.core.observing.journals", "ports"),
        ("app.core.mappings.cli.tables", "cli"),
        ("app.core.runs.launcher", "ports"),
        ("app.products.audits.launcher", "edge"),
        ("app.products.demo.once", "cli"),
        ("app.core.product", "record"),
        ("app.kit.words", "pure"),
        ("app.kit.web.problems", "kit.web"),
        ("app.edges.kafka.admin", "border"),
        ("app.edges.kafka.cli.direct", "cli"),
        ("app.edges.main.server", None),
        ("app.products", None),
    ],
)
def test_the_name_of_a_module_says_its_role(module: str, role: str | None) -> None:
    assert role_of(module) == role


def test_a_module_outside_the_nouns_is_left_alone() -> None:
    assert not objection("app.edges.main.server", "fastapi")
