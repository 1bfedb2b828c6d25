"""The collector of app/products/files/reader for the server. Each order has its own thread, which a stop ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

from app.edges.kafka.connections import resolve
from app.kit.errors import FencelineError, ForbiddenError
from app.products.files.orphan_findings import Amount, ConfirmedOrphans
from app.products.files.orphan_look import OrphanResult
from app.products.files.orphan_ports import CollectionProgress, OrphanJob, OrphanOrder
from app.products.files.orphans import Margin, Stored, margin_of
from app.products.files.reader.collecting import OrphanCollector
from app.products.files.reader.findings import Findings
from app.products.files.reader.open_upload import OpenUpload
from app.products.files.reader.store import FileStore, open_store
from app.products.files.reader.topic import Topic
from app.products.files.service.deleting import Deletion, chosen, left_after, why_too_many
from app.products.files.service.telling import findings_of

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""Longest wait for open transactions in a sink topic."""
_PAUSE_S = 0.2
_NOTHING = Amount()


class StoppedError(Exception):
    """Raised in the collector's next action after a stop."""


class FileOrphanCollectors:
    """Implement app/products/files/orphan_ports.py.

    Args:
        allowed_roots: patterns; a root that matches none is not opened. Empty: any root is allowed.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        secrets_dir: Path | None,
        allowed_roots: Sequence[str],
        patience_s: float = PATIENCE_S,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._environment = environment
        self._secrets_dir = secrets_dir
        self._allowed_roots = tuple(allowed_roots)
        self._patience_s = patience_s
        self._now_ms = now_ms

    def begin(self, order: OrphanOrder) -> OrphanJob:
        job = _Job(order.pipeline, lambda job: self._carry_out(order, job))
        job.start()
        return job

    def _carry_out(self, order: OrphanOrder, job: _Job) -> OrphanResult:
        roots = list(dict.fromkeys(one.files.root for one in order.definitions if one.files is not None))
        for root in roots:
            self._check_allowed(root)
        with ExitStack() as stack:
            topics = self._topics(order, stack)
            job.tell("reading transaction.max.timeout.ms of the brokers")
            longest_ms = max(topic.transaction_max_timeout_ms() for topic in topics)
            margin = margin_of(order.definitions, transaction_max_timeout_ms=longest_ms)
            collectors = {root: self._collector(order, root, topics, margin, job) for root in roots}
            found = [
                collector.look(_teller(job, "" if len(roots) == 1 else root)) for root, collector in collectors.items()
            ]
            if order.confirmed is None:
                return OrphanResult(findings=findings_of(found))
            return self._collect(collectors, found, order.confirmed, job)

    def _collect(
        self, collectors: Mapping[str, OrphanCollector], found: Sequence[Findings], seen: ConfirmedOrphans, job: _Job
    ) -> OrphanResult:
        told = findings_of(found)
        if told.blocked:
            return OrphanResult(findings=told, reason=f"{told.blocked[0].sentence}: no file is judged or deleted")
        wanted = [chosen(findings, seen) for findings in found]
        if (reason := why_too_many(wanted, seen)) is not None:
            return OrphanResult(findings=told, reason=reason)
        deletion = Deletion()

        def heard(root: str, stored: Stored) -> None:
            deletion.add(root, stored)
            job.tell(f"deleting: {deletion.amount.files:,} of {deletion.wanted:,} files", deleted=deletion.amount)

        deletion.wanted = sum(len(one.orphans) for one in wanted)
        reason = None
        try:
            for one in wanted:
                job.tell("reading new references", deleted=deletion.amount)
                outcome = collectors[one.root].delete(one, told=lambda stored, root=one.root: heard(root, stored))
                deletion.end(one.root, outcome)
        except StoppedError:
            reason = "the server was stopped, or lost the lock, before it was complete: scan again"
        except FencelineError as error:
            reason = error.message
        except Exception as error:
            # The deletions so far must be reported with any error.
            log.exception("collecting the orphans of %s failed", job.pipeline)
            reason = f"{type(error).__name__}: {error}"
        return OrphanResult(
            findings=findings_of([left_after(findings, deletion) for findings in found]),
            collected=deletion.told(),
            reason=reason,
        )

    def _check_allowed(self, root: str) -> None:
        if self._allowed_roots and not any(fnmatchcase(root, pattern) for pattern in self._allowed_roots):
            raise ForbiddenError(
                f"{root} matches none of the allowed roots ({', '.join(self._allowed_roots)}): an administrator can "
                "add it to FENCELINE_ALLOWED_FILE_ROOTS"
            )

    def _topics(self, order: OrphanOrder, stack: ExitStack) -> list[Topic]:
        topics: list[Topic] = []
        for cluster, name in dict.fromkeys((one.cluster, one.sink_topic) for one in order.definitions):
            connection = order.connections[cluster]
            resolved = resolve(connection, environment=self._environment, secrets_dir=self._secrets_dir)
            topics.append(Topic(name, resolved))
            stack.callback(topics[-1].close)
            topics[-1].require_cluster(cluster, order.kafka_cluster_ids[cluster])
        return topics

    def _collector(
        self, order: OrphanOrder, root: str, topics: Sequence[Topic], margin: Margin, job: _Job
    ) -> OrphanCollector:
        def pause(seconds: float) -> None:
            job.check()
            time.sleep(seconds)

        return OrphanCollector(
            _Watched(open_store(root), job.check),
            topics,
            pipeline=order.pipeline,
            margin=margin,
            created_ms=_ms(order.created_at),
            patience_s=self._patience_s,
            now_ms=self._now_ms,
            pause=pause,
            step=lambda _: job.check(),
        )


class _Job:
    """One order in a daemon thread, so that a hanging store or client does not prevent the end of the process."""

    def __init__(self, pipeline: str, work: Callable[[_Job], OrphanResult]) -> None:
        self.pipeline = pipeline
        self._work = work
        self._stopped = threading.Event()
        self._progress = CollectionProgress("starting", _NOTHING, 0)
        self._result: OrphanResult | None = None
        self._thread = threading.Thread(target=self._run, name=f"orphans of {pipeline}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def progress(self) -> CollectionProgress:
        return self._progress

    @property
    def result(self) -> OrphanResult | None:
        return self._result

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()

    def check(self) -> None:
        """Count a step. Raises StoppedError after a stop."""
        if self._stopped.is_set():
            raise StoppedError
        self._progress = self._progress._replace(steps=self._progress.steps + 1)

    def tell(self, said: str, *, deleted: Amount = _NOTHING) -> None:
        """Report progress. It does not check for a stop, so that the last action is reported completely."""
        self._progress = CollectionProgress(said, deleted, self._progress.steps + 1)

    def _run(self) -> None:
        try:
            self._result = self._work(self)
        except StoppedError:
            self._result = OrphanResult(reason="the server was stopped, or lost the lock, before it was complete")
        except FencelineError as error:
            self._result = OrphanResult(reason=error.message)
        except Exception as error:
            # Any error must end the scan.
            log.exception("the orphan scan of %s failed", self.pipeline)
            self._result = OrphanResult(reason=f"{type(error).__name__}: {error}")


class _Watched:
    """A store that checks for a stop before every request and every listed file."""

    def __init__(self, store: FileStore, check: Callable[[], None]) -> None:
        self._store = store
        self._check = check

    @property
    def root(self) -> str:
        return self._store.root

    def now_ms(self) -> int | None:
        self._check()
        return self._store.now_ms()

    def list(self, folder: str) -> Iterator[Stored]:
        for stored in self._store.list(folder):
            self._check()
            yield stored

    def stat(self, path: str) -> Stored:
        self._check()
        return self._store.stat(path)

    def open(self, path: str) -> BinaryIO:
        self._check()
        return self._store.open(path)

    def delete(self, path: str) -> None:
        self._check()
        self._store.delete(path)

    def open_uploads(self, folder: str) -> Iterator[OpenUpload]:
        for upload in self._store.open_uploads(folder):
            self._check()
            yield upload

    def abort_upload(self, upload: OpenUpload) -> None:
        self._check()
        self._store.abort_upload(upload)


def _teller(job: _Job, root: str) -> Callable[[str], None]:
    return lambda said: job.tell(f"{root}: {said}" if root else said)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
