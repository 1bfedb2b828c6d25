"""Writes of DataFrames: a streaming query, or a whole DataFrame in one transaction."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from fenceline_spark.classpath import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SHARE = "fenceline_share"


def exactly_once(
    df: "DataFrame",
    *,
    bootstrap_servers: str,
    name: str,
    checkpoint: str,
    topic: str | None = None,
    writers: int = 1,
    output_mode: str = "append",
    options: Mapping[str, str] | None = None,
) -> "DataStreamWriter":
    """A streaming query whose rows appear in Kafka exactly once. Call `start()` on the result.

    Args:
        df: a streaming DataFrame with the columns of Spark's Kafka sink: `value`, and as needed `key`, `headers`,
            `topic`, `partition` and `timestamp`.
        bootstrap_servers: as Kafka's `bootstrap.servers`.
        name: name of the query, 1 to 80 letters, digits, `-` and `_`. It is part of the transactional ids and, unless
            `groupId` is given, the consumer group of the markers. One query has it at a time: the newest.
        checkpoint: checkpoint location of the query, of this query only.
        topic: where rows go that name no topic themselves. Without it, give `markerTopic` in `options`.
        writers: 1: a batch is one transaction, and rows need not be deterministic. More: each writer has the rows of
            its keys, and of values without a key, in a transaction of its own. A batch that is computed again must have
            the same ones.
        output_mode: `append`, `update`, or `complete`, which writes all rows again in every batch and is warned of.
        options: further options of the sink: `kafka.…` for Kafka's clients, `groupId`, `markerTopic`,
            `transactionalIdPrefix`.

    Raises:
        ValueError: several writers, but the plan has expressions that are not deterministic.
    """
    given = {**(options or {}), "kafka.bootstrap.servers": bootstrap_servers, "name": name}
    if output_mode.lower() == "complete":
        warnings.warn(
            "output mode complete writes all rows of the result to Kafka again in every batch; use update or append",
            stacklevel=2,
        )
    if topic is not None:
        given["topic"] = topic
    if writers != 1:
        _check_is_deterministic(df, writers)
        given |= {"writers": str(writers), "rowsAreDeterministic": "true"}
    return (
        _divisible(df)
        .writeStream.format(FORMAT)
        .outputMode(output_mode)
        .options(**given)
        .option("checkpointLocation", checkpoint)
    )


def write_once(
    df: "DataFrame",
    *,
    bootstrap_servers: str,
    name: str,
    idempotence_key: str,
    topic: str | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Write a whole DataFrame in one Kafka transaction, once for each key.

    A second call with the same name and key writes nothing, as long as the brokers keep the marker
    (`offsets.retention.minutes`, 7 days by default). After an error, call it again with the same key.

    Args:
        df: a DataFrame that is not streaming, with the columns that `exactly_once` names.
        idempotence_key: 1 to 100 letters, digits and `. _ : + -`, for example the day that the rows are of.
    """
    given = {**(options or {}), "kafka.bootstrap.servers": bootstrap_servers, "name": name}
    if topic is not None:
        given["topic"] = topic
    df.write.format(FORMAT).options(**given).option("idempotenceKey", idempotence_key).mode("append").save()


def _divisible(df: "DataFrame") -> "DataFrame":
    """Rows with the column that divides them among writers, where the key may be null.

    Spark would give all rows without a key to one writer. One writer needs the column, too: it repeats a batch that
    several had begun with as many.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import BinaryType, StringType

    texts = {field.name: field.nullable for field in df.schema if isinstance(field.dataType, (BinaryType, StringType))}
    if not texts.get("key") or "value" not in texts:
        return df
    key, value = (functions.col(name).cast("binary") for name in ("key", "value"))
    return df.withColumn(_SHARE, functions.xxhash64(functions.coalesce(key, value)))


def _check_is_deterministic(df: "DataFrame", writers: int) -> None:
    plan: Any = getattr(df, "_jdf", None)
    if plan is None:
        raise ValueError(
            f"{writers} writers need a check of the plan, which Spark Connect does not offer. Use one writer, or"
            ' df.writeStream.format("fenceline") with rowsAreDeterministic=true.'
        )
    if not cast(bool, plan.queryExecution().analyzed().deterministic()):
        raise ValueError(
            f"the plan of this DataFrame is not deterministic, so {writers} writers could lose or repeat rows."
            " Use one writer, or remove functions such as rand(), uuid() and non-deterministic UDFs."
        )
