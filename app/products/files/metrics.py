"""Prometheus metrics of files: references, orphans, and the lag of reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge

from app.core.pipelines.pipeline_record import Pipeline
from app.kit.db.unit_of_work import UnitOfWork
from app.products.files.orphan_look import OrphanLook
from app.products.files.service.showing import FileStanding, standings_of_all
from app.products.files.store.orphan_looks import OrphanLookStore


async def file_metrics(
    uow: UnitOfWork, pipelines: Sequence[Pipeline], now: datetime
) -> Callable[[CollectorRegistry], None]:
    """Return the metrics of the pipelines that write files."""
    standings = await standings_of_all(uow, pipelines, now=now)
    orphans = await uow.of(OrphanLookStore).newest_findings(list(standings))

    def write(registry: CollectorRegistry) -> None:
        _files(registry, standings)
        _orphans(registry, orphans)

    return write


def _files(registry: CollectorRegistry, standings: Mapping[str, FileStanding]) -> None:
    """Add the metrics of pipelines that write files, from Postgres, so that all servers have the same values."""
    if not standings:
        return
    counters = {
        name: Counter(f"fenceline_{name}", words, ["pipeline"], registry=registry)
        for name, words in (
            ("files_referenced", "Files that committed references name"),
            ("file_records", "Records in these files"),
            ("file_bytes", "Bytes in these files"),
            ("file_references_repeated", "References to a file that an earlier one names"),
            ("file_references_unreadable", "Messages in the sink topic that are no references"),
        )
    }
    behind = Gauge(
        "fenceline_file_references_behind",
        "Unread offsets of the sink topic up to the last stable offset",
        ["pipeline"],
        registry=registry,
    )
    looked = Gauge(
        "fenceline_file_references_looked_timestamp_seconds",
        "Time of the last answer about the sink topic",
        ["pipeline"],
        registry=registry,
    )
    for name, standing in standings.items():
        watch = standing.watch
        figures = {
            "files_referenced": standing.total.files,
            "file_records": standing.total.records,
            "file_bytes": standing.total.size_bytes,
            "file_references_repeated": 0 if watch is None else watch.repeated,
            "file_references_unreadable": 0 if watch is None else watch.strangers,
        }
        # Each counter begins at zero, since Prometheus sees no increase in one that begins with its first event.
        for figure, number in figures.items():
            counters[figure].labels(name).inc(number)
        if standing.behind is not None:
            behind.labels(name).set(standing.behind)
        if watch is not None and watch.looked_at is not None:
            looked.labels(name).set(watch.looked_at.timestamp())


def _orphans(registry: CollectorRegistry, looks: Mapping[str, OrphanLook]) -> None:
    """Add the findings of the newest scan that judged files, of each pipeline with one."""
    if not looks:
        return
    orphans, size_bytes, dangling, looked = (
        Gauge(f"fenceline_files_{name}", words, ["pipeline"], registry=registry)
        for name, words in (
            ("orphans", "Orphans at the last scan"),
            ("orphans_bytes", "Bytes of these orphans"),
            ("dangling_references", "Committed references without their file at the last scan"),
            ("orphans_looked_timestamp_seconds", "Time of the last scan's listing"),
        )
    )
    for name, look in looks.items():
        if look.findings is None or not look.findings.roots:
            continue
        orphans.labels(name).set(look.findings.orphans.files)
        size_bytes.labels(name).set(look.findings.orphans.size_bytes)
        dangling.labels(name).set(look.findings.missing)
        looked.labels(name).set(min(one.listed_at for one in look.findings.roots).timestamp())
