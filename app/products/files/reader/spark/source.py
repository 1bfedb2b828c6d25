"""`fenceline_files`: a DataFrame of the records that committed references name, each once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from app.kit.errors import InvalidError
from app.kit.moments import WordsError, moment_of
from app.products.files.reader.errors import ReferencesUnreadableError
from app.products.files.reader.reading import Selection, Stores, records
from app.products.files.reader.references import Located, ReferenceReading, ReferenceWindow, references_between
from app.products.files.reader.spark.types import merged_schema, row_of
from app.products.files.reader.topic import Offsets, Topic

_KAFKA = "kafka."


class FencelineFiles(DataSource):
    """Spark data source, for `spark.dataSource.register(FencelineFiles)` and `spark.read.format("fenceline_files")`.

    A DataFrame has the references that are committed when it is made, at every evaluation. Each file is a partition,
    and is verified by size and SHA-256 before its first row. A missing or different file fails the job. The default
    schema is the merged one of all files (app/products/files/reader/spark/types.py).

    Options:
        kafka.bootstrap.servers, kafka.…: librdkafka settings of the cluster.
        topic: the sink topic.
        pipeline: only its files; by default those of all pipelines in the topic.
        from, to: range of the references' timestamps, each a time with its zone, or a time ago such as 2h.
        partitions: a JSON object with a value or a list of values by partition column: {"carrier": ["UA", "AA"]}.
        roots: allowed roots, separated by commas; by default any.

    Executors need this package with fastavro, for S3 also s3fs, and its credentials in their environment.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._query = _Query(options)
        # Kept with the DataFrame, so that its schema and rows have no later references.
        self._ends: Offsets | None = None

    @classmethod
    def name(cls) -> str:
        return "fenceline_files"

    def schema(self) -> StructType:
        self._ends = self._query.ends()
        schemas: dict[str, dict[str, Any]] = {}
        for located in self._query.references(self._ends):
            schemas.setdefault(located.reference.fingerprint, located.reference.schema)
        if not schemas:
            raise ReferencesUnreadableError(
                f"{self._query.topic} has no reference to a selected file, so there is no schema: specify one"
            )
        return merged_schema(schemas.values())

    def reader(self, schema: StructType) -> DataSourceReader:
        return _SparkReader(self._query, schema, self._ends)


class ReferencedFile(InputPartition):
    """One referenced file as a partition."""

    def __init__(self, located: Located) -> None:
        super().__init__(located)


class _SparkReader(DataSourceReader):
    def __init__(self, query: _Query, schema: StructType, ends: Offsets | None) -> None:
        self._query = query
        self._schema = schema
        self._ends = ends

    def partitions(self) -> list[InputPartition]:
        ends = self._query.ends() if self._ends is None else self._ends
        return [ReferencedFile(located) for located in self._query.references(ends)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        # Spark passes another partition if there is none.
        if not isinstance(partition, ReferencedFile):
            return
        located = cast("Located", partition.value)
        row = row_of(self._schema)
        for record in records(located, _stores(os.getpid(), self._query.roots).of(located)):
            yield row(record)


@lru_cache(maxsize=8)
def _stores(_pid: int, roots: tuple[str, ...] | None) -> Stores:
    """Return the stores of this process. A Python worker reads many files; store clients do not survive a fork."""
    return Stores(roots=roots)


class _Query:
    """The validated options. It is sent to executors, without clients."""

    def __init__(self, options: Mapping[str, str]) -> None:
        now = datetime.now(UTC)
        self.topic = _required(options, "topic")
        self.connection = {
            name[len(_KAFKA) :]: value for name, value in options.items() if name.lower().startswith(_KAFKA)
        }
        if "bootstrap.servers" not in self.connection:
            raise InvalidError("the option kafka.bootstrap.servers is missing")
        self.pipeline = options.get("pipeline")
        self.window = ReferenceWindow(from_ms=_ms(options, "from", now), to_ms=_ms(options, "to", now))
        self.selection = _selection(options.get("partitions"))
        roots = options.get("roots")
        self.roots = None if roots is None else tuple(root.strip() for root in roots.split(","))

    def ends(self) -> Offsets:
        with closing(Topic(self.topic, self.connection)) as topic:
            return dict(topic.last_stable())

    def references(self, ends: Offsets) -> Iterator[Located]:
        seen: set[str] = set()
        with closing(Topic(self.topic, self.connection)) as topic:
            begins = topic.begins() if self.window.from_ms is None else topic.at_time(self.window.from_ms)
            start = {partition: min(begins[partition], end) for partition, end in ends.items()}
            for located in references_between(topic, start, ends, reading=ReferenceReading(topic=self.topic)):
                reference = located.reference
                if self.pipeline not in (None, reference.pipeline) or reference.path in seen:
                    continue
                if self.window.has(located.timestamp_ms) and self.selection.has(reference):
                    seen.add(reference.path)
                    yield located


def _required(options: Mapping[str, str], name: str) -> str:
    value = options.get(name)
    if not value:
        raise InvalidError(f"the option {name} is missing")
    return value


def _ms(options: Mapping[str, str], name: str, now: datetime) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        return int(moment_of(text, now=now).timestamp() * 1000)
    except WordsError as error:
        raise InvalidError(f"the option {name} is {error}") from error


def _selection(text: str | None) -> Selection:
    if text is None:
        return Selection()
    try:
        given: Any = json.loads(text)
    except ValueError as error:
        raise InvalidError(f"the option partitions is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise InvalidError('the option partitions must be an object such as {"carrier": ["UA", "AA"]}')
    columns: dict[str, set[str]] = {}
    for name, values in cast("dict[str, Any]", given).items():
        several = cast("list[Any]", values) if isinstance(values, list) else [values]
        if not all(isinstance(value, str) for value in several):
            raise InvalidError(f"the option partitions requires text values for {name}")
        columns[name] = set(several)
    return Selection(columns=columns)
