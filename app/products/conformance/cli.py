"""`fenceline conformance`: check a cluster's transactional guarantees."""

from __future__ import annotations

import importlib.metadata
import secrets
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Annotated

import confluent_kafka
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from app.core.clusters.survey import Survey, setting_lines
from app.edges.kafka.cli.cluster import DirectCluster, as_document
from app.edges.kafka.cli.direct import ClientConfig, ask
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.output import AsJson, console, print_json, say, table
from app.products.conformance.checking.bench import BenchPlace
from app.products.conformance.checking.checks import CHECKS, Check, results_of
from app.products.conformance.report import (
    CheckedBroker,
    CheckResult,
    ConformanceVerdict,
    Report,
    Setting,
    summary,
    words,
)

_STYLES = {
    ConformanceVerdict.KEPT: "green",
    ConformanceVerdict.BROKEN: "bold red",
    ConformanceVerdict.AT_RISK: "yellow",
    ConformanceVerdict.NOT_SHOWN: "cyan",
    ConformanceVerdict.NOT_CHECKED: "magenta",
}
_REPLICAS = 3
_STOPPED = 130


def conformance(
    *,
    bootstrap_server: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The cluster's brokers; several separated by commas.")
    ] = None,
    config: ClientConfig = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this check, or those of this guarantee; repeatable.")
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="Prefix of the topics, groups and transactional ids of the checks.")
    ] = "fenceline-conformance",
    timeout: Annotated[
        float,
        typer.Option(min=1, metavar="SECONDS", help="The time limit for a timeout, and for a compaction."),
    ] = 60.0,
    list_them: Annotated[bool, typer.Option("--list", help="Only list the checks.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check Kafka's transactional guarantees on a cluster, with topics that are deleted afterwards."""
    checks = _chosen(only or [])
    if list_them:
        _say_checks(checks, as_json=as_json)
        return
    cluster = DirectCluster(bootstrap_server, config)
    survey = ask(lambda brokers: brokers.survey(cluster.connection))
    settings = tuple(Setting(name=line.name, values=line.values) for line in setting_lines(survey))
    place = BenchPlace(
        cluster.resolved(),
        prefix=f"{prefix}-{secrets.token_hex(4)}",
        replication_factor=min(_REPLICAS, len(survey.brokers)),
        brokers={setting.name: setting.values for setting in settings},
        patience_s=timeout,
    )
    results: list[CheckResult] = []
    try:
        is_complete = _run(place, checks, results, is_shown=not as_json)
    finally:
        place.close()
    report = _report(survey, settings, place, results, address=cluster.bootstrap_server, is_complete=is_complete)
    if as_json:
        print_json(as_document(report))
    else:
        _say_report(report)
    if not is_complete:
        raise typer.Exit(_STOPPED)
    if any(one.verdict in (ConformanceVerdict.BROKEN, ConformanceVerdict.NOT_CHECKED) for one in results):
        raise typer.Exit(ExitCode.FAILED)


def _chosen(only: Sequence[str]) -> list[Check]:
    for name in only:
        if not any(name in (check.name, check.promise) for check in CHECKS):
            known = ", ".join([*dict.fromkeys(check.promise for check in CHECKS), *(check.name for check in CHECKS)])
            raise CommandError(f"--only {name}: unknown check. Known: {known}", code=ExitCode.USAGE)
    return [check for check in CHECKS if not only or {check.name, str(check.promise)} & set(only)]


def _run(place: BenchPlace, checks: Sequence[Check], results: list[CheckResult], *, is_shown: bool) -> bool:
    """Add results to `results` one after another; False after an interrupt. Its topics are deleted in both cases."""
    with _terminated_as_interrupted() as is_told, _progress(checks, results, is_shown=is_shown) as progress:
        try:
            for result in results_of(place, checks):
                results.append(result)
                progress()
        except (KeyboardInterrupt, SystemError):
            # An interrupt in a callback of the client is swallowed, and becomes a SystemError.
            if not is_told():
                raise
            return False
    return True


@contextmanager
def _terminated_as_interrupted() -> Generator[Callable[[], bool]]:
    """End on SIGTERM as on Ctrl-C, which background jobs ignore at first, so that all topics are deleted. Yields
    whether one of them has come."""
    told = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        told.set()
        signal.default_int_handler(number, frame)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Progress:
    """Update the table; without a terminal it is shown once, at the end."""

    def __init__(self, live: Live | None, checks: Sequence[Check], results: Sequence[CheckResult]) -> None:
        self._live = live
        self._checks = checks
        self._results = results

    def __call__(self) -> None:
        if self._live is not None:
            self._live.update(progress_of(self._checks, self._results), refresh=True)


@contextmanager
def _progress(checks: Sequence[Check], results: Sequence[CheckResult], *, is_shown: bool) -> Generator[_Progress]:
    if not is_shown:
        yield _Progress(None, checks, results)
        return
    with Live(progress_of(checks, results), console=console, auto_refresh=False) as live:
        yield _Progress(live, checks, results)


def progress_of(checks: Sequence[Check], results: Sequence[CheckResult]) -> RenderableType:
    """Show completed, current and pending checks."""
    rows: list[tuple[RenderableType | str | None, ...]] = [
        (
            Text(words(one.verdict), style=_STYLES[one.verdict]),
            _name(one.check, one.promise),
            Group(Text(one.claim, style="dim"), Text(one.said)),
            f"{one.took_s:.1f}",
        )
        for one in results
    ]
    for number, check in enumerate(checks[len(results) :]):
        state = Text("checking", style="bold") if number == 0 else Text("pending", style="dim")
        rows.append((state, _name(check.name, check.promise), Text(check.claim, style="dim"), None))
    return table(("STATE", "CHECK", "GUARANTEE AND FINDING", "SECONDS#"), rows, empty="There is nothing to check.")


def _name(check: str, promise: str) -> Text:
    return Text.assemble(check, (f"\n{promise.replace('_', ' ')}", "dim"))


def _say_checks(checks: Sequence[Check], *, as_json: bool) -> None:
    if as_json:
        print_json([{"check": one.name, "promise": one.promise, "claim": one.claim} for one in checks])
    else:
        rows = ((one.promise.replace("_", " "), one.name, one.claim) for one in checks)
        console.print(table(("GUARANTEE", "CHECK", "CLAIM"), rows, empty="There is nothing to check."))


def _report(
    survey: Survey,
    settings: tuple[Setting, ...],
    place: BenchPlace,
    results: Sequence[CheckResult],
    *,
    address: str,
    is_complete: bool,
) -> Report:
    return Report(
        at=datetime.now(UTC),
        fenceline_version=importlib.metadata.version("fenceline"),
        client_version=confluent_kafka.libversion()[0],
        bootstrap_servers=address,
        cluster_id=survey.cluster_id,
        brokers=tuple(
            CheckedBroker(id=one.id, version=None if one.version is None else ".".join(map(str, one.version)))
            for one in survey.brokers
        ),
        features={one.name: one.level for one in survey.features},
        settings=settings,
        replication_factor=place.replication_factor,
        results=tuple(results),
        left_behind=tuple(place.left_behind),
        is_complete=is_complete,
    )


def _say_report(report: Report) -> None:
    """Print the cluster and its settings below the table of results."""
    brokers = ", ".join(f"{one.id} ({one.version or 'version unknown'})" for one in report.brokers)
    features = ", ".join(f"{name} {level}" for name, level in report.features.items()) or "unknown"
    say(f"\n{'' if report.is_complete else 'stopped before the end: '}{summary(report.results) or 'nothing checked'}")
    say(f"cluster {report.cluster_id} at {report.bootstrap_servers}, {report.at:%Y-%m-%d %H:%M:%S} UTC")
    say(f"brokers {brokers}; features {features}; replication factor of the checks' topics {report.replication_factor}")
    say(f"checked by Fenceline {report.fenceline_version} with librdkafka {report.client_version}")
    told = ((one.name, ", ".join(one.values)) for one in report.settings if one.values)
    console.print(table(("SETTING", "VALUE"), told, empty="The brokers' settings are unknown."))
    for left in report.left_behind:
        say(f"not deleted: {left}")
