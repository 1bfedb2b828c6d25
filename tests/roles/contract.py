"""The contract of import-linter about the roles of files inside a noun or product (pyproject.toml names it).

`role_of` gives the role of a module by its name, and `MAY_IMPORT` what each role may import. A module without the name
of a role is a rule: it decides, and does no I/O.
"""

from __future__ import annotations

from fnmatch import fnmatch

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

ROLES = {
    # They talk to brokers, files, processes or the network, each by a library of its own.
    "edge": (
        "reader", "reference_topics", "post", "submission", "fold_files", "audits.launcher", "files.service.collecting",
        "files.service.deleting", "files.service.telling",
    ),
    "cli": ("cli", "conformance", "demo", "direct", "support_bundle"),
    "tables": ("tables",),
    "store": ("store", "*_store"),
    "service": (
        "service", "surveys", "search_once", "shown_records", "python_transforms", "tried_transform",
        "tried_query", "dataframe_plan", "spark_check", "check_process", "asked_process", "isolation",
        "overview.search",
    ),
    "ports": (
        "ports", "*_ports", "brokers", "observing.journals", "launcher", "hooks", "asked_audits", "product_views",
        "asked_batches", "late_rows",
    ),
    "loop": ("loop", "loops"),
    "web": (
        "api", "*_api", "pages", "chart", "charts", "schemas", "*_schemas", "definition_schema", "web_looks", "wiring",
        "signed_in", "repeated_commands",
    ),
    "metrics": ("metrics",),
    "record": ("product",),
}  # fmt: skip
"""The names of files and folders in `app/core` and `app/products`; one with a dot belongs to one noun only.

The outermost folder that fits decides. Four products are commands as a whole: each of their files has the role cli.
"""

PURE = (
    "access", "back_off", "changes", "chart_range", "clock", "errors", "locks", "moments", "page", "patience",
    "printable", "storable", "store_failures", "utf8_locale", "words",
)  # fmt: skip
"""The modules of kit that any role may import."""

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "rule": ("rule",),
    "pure": (),
    "kit.db": ("kit.db",),
    "kit.loops": ("kit.loops", "kit.db.unit_of_work"),
    "kit.web": ("kit.web", "kit.db.unit_of_work", "kit.settings"),
    "kit.cli": ("kit.cli", "kit.settings", "kit.state_files"),
    "border": ("rule", "ports", "border"),
    "database": ("rule", "database", "kit.db"),
    "ports": ("rule", "ports", "kit.db.unit_of_work"),
    "tables": ("rule", "tables", "kit.db.columns"),
    "store": ("rule", "tables", "store", "kit.db.connection", "kit.db.store", "kit.db.columns", "kit.db.cursors"),
    "service": ("rule", "ports", "store", "service", "kit.db.unit_of_work"),
    "loop": ("rule", "ports", "store", "service", "loop", "kit.db.unit_of_work", "kit.loops"),
    "web": ("rule", "ports", "store", "service", "web", "record", "kit.db.unit_of_work", "kit.settings", "kit.web"),
    "metrics": ("rule", "ports", "store", "service", "kit.db.unit_of_work"),
    "cli": ("rule", "ports", "service", "cli", "edge", "kit.cli", "kit.settings", "kit.state_files"),
    "edge": ("rule", "ports", "edge", "kit.state_files"),
    "record": (
        "rule", "ports", "store", "service", "loop", "web", "metrics", "edge", "record", "kit.db.unit_of_work",
        "kit.loops", "kit.settings", "kit.web",
    ),
}  # fmt: skip

LIBRARIES = ("fastapi", "starlette", "sqlalchemy", "confluent_kafka", "kafka", "pyspark", "typer", "jinja2")
MAY_USE: dict[str, tuple[str, ...]] = {
    "kit.db": ("sqlalchemy",),
    "kit.web": ("fastapi", "starlette", "jinja2"),
    "kit.cli": ("typer",),
    "border": ("confluent_kafka", "kafka", "sqlalchemy"),
    "database": ("sqlalchemy",),
    "tables": ("sqlalchemy",),
    "store": ("sqlalchemy",),
    "web": ("fastapi", "starlette"),
    "record": ("fastapi",),
    "cli": ("typer", "confluent_kafka", "kafka"),
    "edge": ("confluent_kafka", "kafka", "pyspark"),
}
"""Of LIBRARIES, those that the role may import."""

MAY_USE_EDGES = ("border", "cli", "database", "edge", "record")


def role_of(module: str) -> str | None:
    """The role of a module of core, a product, kit or edges; None: it has none, and imports what the layers allow."""
    package, _, rest = module.removeprefix("app.").partition(".")
    if not module.startswith("app.") or not rest:
        return None
    folder = rest.partition(".")[0]
    if package == "kit":
        return "pure" if folder in PURE else f"kit.{folder}" if f"kit.{folder}" in MAY_IMPORT else None
    if package == "edges":
        if rest.startswith("kafka.cli"):
            return "cli"
        return {"kafka": "border", "spark": "border", "embedded": "border", "db": "database"}.get(folder)
    if package not in ("core", "products"):
        return None
    parts = rest.split(".")
    folders = parts[1:] if package == "core" and len(parts) > 1 else parts
    for name in (".".join(parts[:3]), ".".join(parts[:2]), *folders):
        for role, patterns in ROLES.items():
            if any(fnmatch(name, pattern) for pattern in patterns):
                return role
    return "rule"


def objection(importer: str, imported: str) -> str:
    """Why the role of `importer` must not import that module; empty: it may."""
    role = role_of(importer)
    if role is None:
        return ""
    package = imported.partition(".")[0]
    if package in LIBRARIES:
        return "" if package in MAY_USE.get(role, ()) else f"{role} files do not use {package}"
    if imported.startswith("app.edges."):
        return "" if role in MAY_USE_EDGES else f"{role} files do not import {imported}"
    if imported.startswith("app.kit."):
        below = imported.removeprefix("app.")
        is_allowed = below.removeprefix("kit.").partition(".")[0] in PURE or any(
            below == allowed or below.startswith(f"{allowed}.") for allowed in MAY_IMPORT[role]
        )
        return "" if is_allowed else f"{role} files do not use {imported}"
    other = role_of(imported)
    if other is None or other in MAY_IMPORT[role]:
        return ""
    return f"{role} files do not import {other} files"


class RolesContract(Contract):
    """Each file imports only what its role may."""

    type_name = "roles"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        del verbose
        broken = [
            (importer, imported, why)
            for importer in sorted(graph.modules)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if (why := objection(importer, imported))
        ]
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported, why in check.metadata["broken"]:
            output.print_error(f"{importer} -> {imported}: {why}")
