"""Commands: hold a query; after a refusal show markers, settle a batch of unknown outcome, start over."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fenceline_spark.classpath import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Marker:
    """The newest batch of one writer.

    Attributes:
        writer: number of the writer, from 0.
        query: id of the streaming query, as in its checkpoint; None before its first batch.
        batch: number of the newest committed batch; -1 before the first.
        writers: number of writers of that batch.
    """

    writer: int
    query: str | None
    batch: int
    writers: int


def markers(
    spark: "SparkSession",
    *,
    bootstrap_servers: str,
    name: str,
    topic: str,
    options: Mapping[str, str] | None = None,
) -> list[Marker]:
    """The markers of a query, by writer. Empty: none was written, or all have expired.

    Args:
        topic: the topic that has the markers: `markerTopic` where the query has one, else its topic.
    """
    found: list[Marker] = []
    for line in _operations(spark).markers(_options(bootstrap_servers, name, topic, options)):
        writer, query, batch, writers = str(line).split(" ")
        found.append(Marker(int(writer), None if query == "-" else query, int(batch), int(writers)))
    return found


def starting_offsets(
    spark: "SparkSession",
    *,
    bootstrap_servers: str,
    name: str,
    topic: str,
    options: Mapping[str, str] | None = None,
) -> str:
    """The end of the newest committed batch in each source, as the option `startingOffsets` of Spark's Kafka source.

    With it, a query without state goes on with a new checkpoint and reads nothing twice. `{}` if there is none.
    """
    return str(_operations(spark).startingOffsets(_options(bootstrap_servers, name, topic, options)))


def start_over(
    spark: "SparkSession",
    *,
    bootstrap_servers: str,
    name: str,
    topic: str,
    reason: str,
    options: Mapping[str, str] | None = None,
) -> None:
    """Forget the batches of a query, so that it may begin with a new checkpoint. A running driver of it is fenced.

    The query then reads its sources from `startingOffsets` again, and writes what it has written before again, unless
    these offsets are those of `starting_offsets`. Call that first: it stays as it is.

    Args:
        reason: 1 to 200 characters, kept with the markers.
    """
    _operations(spark).startOver(_options(bootstrap_servers, name, topic, options), reason)


def settle(
    spark: "SparkSession",
    *,
    bootstrap_servers: str,
    name: str,
    topic: str,
    checkpoint: str,
    committed: bool,
    reason: str,
    writers: int = 1,
    options: Mapping[str, str] | None = None,
) -> None:
    """Record whether the checkpoint's newest batch is in Kafka, where its markers have expired.

    A wrong answer loses the batch, or repeats it. A marker that is there is never overwritten.

    Args:
        committed: whether the rows of the batch are in the topic.
        reason: 1 to 200 characters, kept with the markers.
    """
    given = _options(bootstrap_servers, name, topic, options)
    given |= {"checkpointLocation": checkpoint, "writers": str(writers)}
    _operations(spark).settle(given, committed, reason)


def hold(spark: "SparkSession", name: str, *, is_held: bool = True) -> None:
    """Make a query of this application wait before its next batch, or go on. A held query keeps its claim.

    To stop a query without an aborted transaction: hold it, wait until `is_holding` or no trigger is active, then
    call its `stop()`.

    Args:
        name: the query's `name`. It may be held before it is started.
    """
    _operations(spark).hold(name, is_held)


def is_holding(spark: "SparkSession", name: str) -> bool:
    """A batch waits at the hold: Spark has planned it, and nothing of it is computed or written."""
    return bool(_operations(spark).isHeld(name))


def _options(bootstrap_servers: str, name: str, topic: str, options: Mapping[str, str] | None) -> dict[str, str]:
    return {**(options or {}), "kafka.bootstrap.servers": bootstrap_servers, "name": name, "markerTopic": topic}


def _operations(spark: "SparkSession") -> Any:
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        raise TypeError("this function needs a session of classic Spark; Spark Connect has no access to its JVM.")
    operations = jvm.io.fenceline.spark.Operations
    if not callable(operations):
        raise LookupError(  # noqa: TRY004 - py4j gives a package for a class that is missing
            f'Spark does not have the jar of format("{FORMAT}"). Build the session with'
            " fenceline_spark.configure(SparkSession.builder), or give spark-submit the options that"
            " `python -m fenceline_spark` prints."
        )
    return operations
