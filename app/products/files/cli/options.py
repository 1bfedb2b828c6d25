"""Options of the commands about files, their selection, and their progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from types import TracebackType
from typing import Annotated, Self

import typer
from rich.console import Console
from rich.status import Status

from app.edges.kafka.cli.direct import BootstrapServer, ClientConfig
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.moments import moment_option
from app.products.files.cli.pipeline_topics import PipelineTopics, direct, of_server
from app.products.files.reader.reading import Selection
from app.products.files.reader.references import Located, ReferenceReading, ReferenceWindow, committed_references
from app.products.files.reader.topic import Topic

__all__ = ["BootstrapServer", "ClientConfig"]

From = Annotated[
    str | None,
    typer.Option(
        "--from", help="Earliest reference: a time such as 2026-01-31T12:00:00Z, or 90m, 2h, 1d ago. Default: all."
    ),
]
To = Annotated[str | None, typer.Option("--to", help="End of the references, in the same format, or now.")]
Partition = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        "-p",
        metavar="COLUMN=VALUE",
        help="Only files with this partition value. Values of one column are alternatives; all columns must match.",
    ),
]
SinkTopicName = Annotated[
    str | None, typer.Option("--topic", help="With --bootstrap-server: the topic of the references.")
]


def pipeline_of(
    pipeline: str, bootstrap_server: str | None, config: list[str] | None, topic: str | None
) -> PipelineTopics:
    """Return the pipeline's topics, from the server or from the options."""
    if bootstrap_server is not None:
        return direct(pipeline, bootstrap_server, config, topic)
    if config or topic is not None:
        raise CommandError("--config and --topic require --bootstrap-server", code=ExitCode.USAGE)
    return of_server(pipeline)


def window_of(from_: str | None, to: str | None) -> ReferenceWindow:
    """Return the range of the references' timestamps. Raises CommandError."""
    now = datetime.now(UTC)
    window = ReferenceWindow(from_ms=_ms(from_, "--from", now), to_ms=_ms(to, "--to", now))
    if window.from_ms is not None and window.to_ms is not None and window.from_ms >= window.to_ms:
        raise CommandError("--from is not before --to", code=ExitCode.USAGE)
    return window


def selection_of(partition: Sequence[str] | None) -> Selection:
    """Parse COLUMN=VALUE pairs. Raises CommandError for another form."""
    columns: dict[str, set[str]] = {}
    for pair in partition or ():
        name, is_pair, value = pair.partition("=")
        if not is_pair or not name:
            raise CommandError(f"--partition {pair}: expected COLUMN=VALUE", code=ExitCode.USAGE)
        columns.setdefault(name, set()).add(value)
    return Selection(columns=columns)


class FoundReferences:
    """The references of a pipeline in a window and a selection, with remarks about other records."""

    def __init__(self, pipeline: str, window: ReferenceWindow, selection: Selection) -> None:
        self.found = 0
        self._pipeline = pipeline
        self._window = window
        self._selection = selection
        self._readings: dict[str, ReferenceReading] = {}
        self._columns: set[str] = set()

    def references(self, topics: Iterable[Topic], progress: ProgressLine) -> Iterator[Located]:
        seen: set[str] = set()
        for topic in topics:

            def heard(reading: ReferenceReading) -> None:
                self._readings[reading.topic] = reading
                progress.tell(f"{reading.topic}: {reading.passed:,} of {reading.expected:,} offsets")

            for located in committed_references(topic, self._window, pipeline=self._pipeline, seen=seen, heard=heard):
                self._columns.update(located.reference.partition)
                if self._selection.has(located.reference):
                    self.found += 1
                    yield located

    def check(self) -> None:
        """Raise CommandError if the selection names a column that no file has."""
        unknown = sorted(set(self._selection.columns) - self._columns)
        if self._columns and unknown:
            raise CommandError(
                f"no file is partitioned by {', '.join(unknown)}; columns are {', '.join(sorted(self._columns))}",
                code=ExitCode.USAGE,
            )

    def remarks(self) -> list[str]:
        """Describe other records of the topics."""
        said: list[str] = []
        for topic, reading in self._readings.items():
            if reading.others:
                said.append(f"{topic}: {reading.others:,} records are no references, the last is {reading.other}")
            if reading.repeated:
                said.append(f"{topic}: {reading.repeated:,} references repeat a path and are not counted again")
        return said


class ProgressLine(AbstractContextManager["ProgressLine"]):
    """The progress on standard error: one updated line on a terminal, else only the output of `say`."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status: Status | None = self._console.status("") if sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def tell(self, sentence: str) -> None:
        if self._status is not None:
            self._status.update(sentence)

    def say(self, sentence: str) -> None:
        self._console.print(sentence, soft_wrap=True, markup=False)


def partition_text(partition: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in partition.items()) or "–"


def _ms(text: str | None, option: str, now: datetime) -> int | None:
    if text is None:
        return None
    return int(moment_option(text, option, now=now).timestamp() * 1000)
