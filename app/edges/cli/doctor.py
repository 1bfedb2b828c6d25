"""`fenceline doctor`: the requirements of this machine, found or missing, with commands to get them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.core.allow_lists.spark_master import DEFAULT_WEB_PORT, SparkMasterError, parse
from app.edges.embedded.doctor import DoctorFinding, DoctorVerdict, Machine, Purpose, examine, is_enough
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.java import find_java
from app.edges.embedded.maven import ECJ_JARS, KAFKA_JARS, SPARK_KAFKA_JARS, ensure_jars
from app.edges.embedded.progress import shown_progress
from app.edges.embedded.spark_sink import ensure_sink_jar
from app.kit.cli.client import settings_or_exit
from app.kit.cli.errors import CommandError
from app.kit.cli.meanwhile import saying_that_it_waits
from app.kit.cli.output import AsJson, console, print_json

_STYLES = {
    DoctorVerdict.FOUND: "green",
    DoctorVerdict.LATER: "yellow",
    DoctorVerdict.WARNING: "yellow",
    DoctorVerdict.MISSING: "bold red",
}


def doctor(
    *,
    fetch: Annotated[bool, typer.Option("--fetch", help="Download missing files, where that is permitted.")] = False,
    purpose: Annotated[
        Purpose | None, typer.Option("--for", help="Check only for this purpose.", show_default="everything")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check what Fenceline requires of this machine. Exit code 1 if a requirement is missing."""
    settings = settings_or_exit()
    # Progress goes to standard error, so that --json stays one document.
    purposes = frozenset(Purpose if purpose is None else [purpose])
    problems = _fetch(Console(stderr=True), purposes) if fetch else []
    machine = Machine(
        environ=os.environ,
        database_url=settings.database_url,
        java_home=settings.java_home,
        worker_python=settings.worker_python,
        ports={"FENCELINE_USERS_PORT": settings.users_port, "FENCELINE_WORKERS_PORT": settings.workers_port},
        folders={"FENCELINE_STATE_DIR": settings.state_dir, "FENCELINE_CACHE_DIR": settings.cache_dir},
        spark_masters=_pages_of_masters(settings.allowed_spark_masters, settings.spark_master_web_urls),
        validates_python=settings.python_transforms and not settings.unisolated_validation,
        native_records=_native_records() if settings.native_records else None,
    )
    with saying_that_it_waits("the database and the Spark masters"):
        findings = examine(machine, purposes)
    is_ready = is_enough(findings) and not problems
    if as_json:
        print_json({"ready": is_ready, "findings": [asdict(finding) for finding in findings], "problems": problems})
    else:
        _print(findings)
    for problem in problems:
        raise CommandError(problem)
    if not is_ready:
        raise typer.Exit(1)


def _native_records() -> Path | str:
    """Return the file of C that tasks on this machine use, or the reason why they use none."""
    # Here, since no other command needs a Kafka client.
    from workers.native.library import native_library

    library = native_library()
    return library if isinstance(library, str) else library.file


def _pages_of_masters(allowed: Sequence[str], web_urls: Sequence[str]) -> dict[str, str]:
    """Return the web pages of the standalone masters in the settings; masters allowed by pattern are not known."""
    pages = {master: url for master, is_pair, url in (pair.partition("=") for pair in web_urls) if is_pair}
    for named in allowed:
        with contextlib.suppress(SparkMasterError):
            for host, _port in parse(named).hosts:
                pages.setdefault(named, f"http://{host}:{DEFAULT_WEB_PORT}")
    return pages


def _fetch(console: Console, purposes: frozenset[Purpose]) -> list[str]:
    """Download Java and jars that are missing for the purposes, and compile the sink; return failures as sentences."""
    brokers = (KAFKA_JARS,) if purposes - {Purpose.SERVE} else ()
    try:
        find_java(may_fetch=True)
        with shown_progress(console) as on_progress:
            for manifest in (*brokers, SPARK_KAFKA_JARS, ECJ_JARS):
                ensure_jars(manifest, on_progress=on_progress)
        ensure_sink_jar()
    except EmbeddedError as error:
        return [str(error)]
    return []


def _print(findings: list[DoctorFinding]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        text = Text(finding.detail)
        if finding.remedy:
            text.append(f"\nto do: {finding.remedy}", style="bold")
        table.add_row(Text(finding.verdict, style=_STYLES[finding.verdict]), Text(finding.name), text)
    console.print(table)
