"""The definition of a comparison: an audit whose baseline is the output of another system (docs/parallel-runs.md).

The other system may be the pipeline's own transform, as a batch job over the same records: a recomputation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from app.core.allow_lists.options import AllowedOptions
from app.core.clusters import secret_reference
from app.core.pipelines import file_root
from app.core.transforms import field_path
from app.core.transforms.field_path import FieldPathError
from app.kit.errors import Problem


class FileFormat(StrEnum):
    AVRO = "avro"
    PARQUET = "parquet"
    CSV = "csv"


class TopicBaseline(msgspec.Struct, frozen=True, kw_only=True, tag_field="of", tag="topic"):
    """The records of a topic on the pipeline's cluster; values are JSON objects."""

    topic: str


class FilesBaseline(msgspec.Struct, frozen=True, kw_only=True, tag_field="of", tag="files"):
    """All files below a folder, `file:///…` or `s3://…`, in folders of it too."""

    format: FileFormat
    location: str


class TableBaseline(msgspec.Struct, frozen=True, kw_only=True, tag_field="of", tag="table"):
    """A table or view that Spark reads by JDBC.

    url: one that the administrator allows. user, password: references to secrets (`env:…`, `file:…`).
    driver: the class of the JDBC driver, an allowed one; None: the one that is known for the URL's product.
    """

    url: str
    table: str
    user: str | None = None
    password: str | None = None
    driver: str | None = None


class Recomputation(msgspec.Struct, frozen=True, kw_only=True, tag_field="of", tag="recomputation"):
    """The rows of the pipeline's own query (kind `dataframe`), run by Spark as a batch over a range of its source.

    It has the window's offsets instead of its times: rows that depend on records beyond the range are not compared.
    """


Baseline = TopicBaseline | FilesBaseline | TableBaseline | Recomputation


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The other system's output, and the rules by which records of both sides are equal.

    output_topic: the compared topic of the pipeline; None: its sink topic.
    time_field, baseline_time_field: the field with a record's time on each side: milliseconds since 1970, or ISO 8601.
        None: its timestamp in Kafka, or that of its file's reference.
    fields: the compared fields with those below them; none: all fields of both sides. ignored_fields: not compared.
    tolerance: the largest difference of two equal numbers.
    """

    baseline: Baseline
    output_topic: str | None = None
    time_field: str | None = None
    baseline_time_field: str | None = None
    fields: tuple[str, ...] = ()
    ignored_fields: tuple[str, ...] = ()
    tolerance: float = 0.0

    @property
    def is_of_topic(self) -> bool:
        return isinstance(self.baseline, TopicBaseline)

    @property
    def is_recomputation(self) -> bool:
        return isinstance(self.baseline, Recomputation)

    @property
    def is_of_records(self) -> bool:
        """True if the baseline has Kafka's records: with keys, and with null as another value than a missing field."""
        return self.is_of_topic or self.is_recomputation

    @property
    def is_text(self) -> bool:
        """True if the baseline has texts only, so that a text of it may mean a number."""
        return isinstance(self.baseline, FilesBaseline) and self.baseline.format is FileFormat.CSV


MAX_FIELDS = 200
_QUOTABLE = r"[\w$# -]{1,128}"
_NAME = rf'(?:(?a:[A-Za-z_][A-Za-z0-9_$]*)|"{_QUOTABLE}"|`{_QUOTABLE}`|\[{_QUOTABLE}\])'
_TABLE = re.compile(rf"{_NAME}(?:\.{_NAME}){{0,2}}")
"""Spark inserts the name into its query as it is. So a quoted name has no quote, backslash, bracket or semicolon."""
_CREDENTIALS = re.compile(r"passw|(?:pwd|secret|token)=|//[^/]+@|:thin:[^@]+@", re.IGNORECASE)
_DRIVERS = {
    "jdbc:postgresql:": "org.postgresql.Driver",
    "jdbc:mysql:": "com.mysql.cj.jdbc.Driver",
    "jdbc:mariadb:": "org.mariadb.jdbc.Driver",
    "jdbc:sqlserver:": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "jdbc:oracle:": "oracle.jdbc.OracleDriver",
}

_NAMES = {FileFormat.AVRO: "Avro", FileFormat.PARQUET: "Parquet", FileFormat.CSV: "CSV"}


def driver_of(table: TableBaseline) -> str | None:
    """Return the class of its JDBC driver; None if it is not known."""
    return table.driver or _known_driver(table.url)


def _known_driver(url: str) -> str | None:
    return next((name for start, name in _DRIVERS.items() if url.startswith(start)), None)


def baseline_words(baseline: Baseline) -> str:
    """Return a text such as `the topic old-payments`."""
    match baseline:
        case TopicBaseline():
            return f"the topic {baseline.topic}"
        case FilesBaseline():
            return f"the {_NAMES[baseline.format]} files in {baseline.location}"
        case TableBaseline():
            return f"the table {baseline.table}"
        case Recomputation():
            return "the recomputation"


def comparison_problems(
    comparison: Comparison, *, output_topics: Sequence[str], file_root: str | None, allowed: AllowedOptions
) -> list[Problem]:
    """Return the problems of a comparison, each with its field below `comparison`.

    output_topics: all topics of the pipeline's outputs, the sink topic first. file_root: the root of its file sink.
    """
    found = [
        *_of_output(comparison, output_topics, writes_files=file_root is not None),
        *_of_baseline(comparison.baseline, comparison.output_topic or output_topics[0], file_root, allowed),
        *_of_fields(comparison),
    ]
    return [Problem(field=f"comparison.{one.field}", message=one.message) for one in found]


def _of_output(comparison: Comparison, output_topics: Sequence[str], *, writes_files: bool) -> Iterator[Problem]:
    topic = comparison.output_topic
    if topic is None:
        return
    if writes_files:
        yield Problem(field="output_topic", message="The pipeline writes files: leave the topic out")
    elif topic not in output_topics:
        named = ", ".join(output_topics)
        yield Problem(field="output_topic", message=f"The pipeline has no output topic {topic}; it has {named}")


def _of_baseline(
    baseline: Baseline, output_topic: str, file_root: str | None, allowed: AllowedOptions
) -> Iterator[Problem]:
    match baseline:
        case TopicBaseline():
            if baseline.topic == output_topic:
                message = "This is the pipeline's own output: name the topic of the other system"
                yield Problem(field="baseline.topic", message=message)
        case FilesBaseline():
            yield from _of_location(baseline.location, file_root, allowed)
        case TableBaseline():
            yield from _of_table(baseline, allowed)
        case Recomputation():
            # app/products/audits/recomputation.py
            return


def _of_location(location: str, own_root: str | None, allowed: AllowedOptions) -> Iterator[Problem]:
    if (message := file_root.problem(location)) is not None:
        yield Problem(field="baseline.location", message=message)
    elif not any(fnmatchcase(location, pattern) for pattern in allowed.baseline_roots):
        message = (
            f"`{location}` is not on the list; an administrator allows it by adding it to "
            "FENCELINE_ALLOWED_BASELINE_ROOTS"
        )
        yield Problem(field="baseline.location", message=message)
    elif own_root is not None and (_is_within(location, own_root) or _is_within(own_root, location)):
        message = "The pipeline's own files are in this folder: name a folder of the other system"
        yield Problem(field="baseline.location", message=message)


def _is_within(location: str, root: str) -> bool:
    return location == root or location.startswith(f"{root}/")


def _of_table(table: TableBaseline, allowed: AllowedOptions) -> Iterator[Problem]:
    # Parameters of a URL can load classes of the driver, so only whole URLs are allowed.
    if table.url not in allowed.jdbc_urls:
        message = "This URL is not on the list; an administrator allows it by adding it to FENCELINE_ALLOWED_JDBC_URLS"
        yield Problem(field="baseline.url", message=message)
    elif _CREDENTIALS.search(table.url):
        message = "The URL must name no password, since it is stored and shown: use references to secrets"
        yield Problem(field="baseline.url", message=message)
    if not _TABLE.fullmatch(table.table):
        message = (
            "Write the name of a table or view, such as public.payments; quote one with capitals or spaces: "
            'public."Old Payments"'
        )
        yield Problem(field="baseline.table", message=message)
    for field, value in (("user", table.user), ("password", table.password)):
        if value is not None and not secret_reference.is_reference(value):
            message = f"Write a reference: env:{secret_reference.ENVIRONMENT_PREFIX}NAME, or file:NAME"
            yield Problem(field=f"baseline.{field}", message=message)
    driver = driver_of(table)
    if driver is None:
        yield Problem(field="baseline.driver", message="Name the class of the JDBC driver for this URL")
    elif driver != _known_driver(table.url) and driver not in allowed.jdbc_drivers:
        # Spark loads and initializes the named class in its driver.
        message = (
            f"The driver `{driver[:80]}` is not on the list; an administrator allows it by adding it to "
            "FENCELINE_ALLOWED_JDBC_DRIVERS"
        )
        yield Problem(field="baseline.driver", message=message)


def _of_fields(comparison: Comparison) -> Iterator[Problem]:
    if not comparison.is_of_records and comparison.baseline_time_field is None:
        message = "Files and tables have no timestamps: name the field with the time of a record"
        yield Problem(field="baseline_time_field", message=message)
    for field in ("time_field", "baseline_time_field"):
        path: str | None = getattr(comparison, field)
        if path is not None and (message := _path_problem(path)):
            yield Problem(field=field, message=message)
    for field in ("fields", "ignored_fields"):
        paths: tuple[str, ...] = getattr(comparison, field)
        if len(paths) > MAX_FIELDS:
            yield Problem(field=field, message=f"At most {MAX_FIELDS} fields can be named")
        for path in paths:
            if message := _path_problem(path):
                yield Problem(field=field, message=message)
    if not (math.isfinite(comparison.tolerance) and comparison.tolerance >= 0):
        yield Problem(field="tolerance", message="The tolerance must be a number from 0 on")


def _path_problem(path: str) -> str | None:
    try:
        field_path.parse(path)
    except FieldPathError as error:
        return str(error)
    return None
