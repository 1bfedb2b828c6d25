"""The streaming query of an instance: its sources, its start, its hold and its end. All use of Spark's API for it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import fenceline_spark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.core.clusters import secret_reference
from app.core.pipelines.pipeline import DataframeQuery, PipelineDefinition, Stream
from app.core.runs.client_id import TaskName, client_id_of
from app.core.wire import protocol
from app.core.wire.specification import InstanceSpecification
from workers.spark.java_client import java_settings
from workers.spark.query_failure import QueryFailedError, failure_of
from workers.spark.query_plan import plan
from workers.spark.query_progress import Progress, decode
from workers.spark.spark_errors import SparkGoneError, first_line
from workers.spark.tasks import read_secret

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
_HEARTBEATS_PER_SESSION = 4


class RunningQuery:
    """A started query. Its methods raise SparkGoneError when the JVM does not answer any more."""

    def __init__(self, spark: SparkSession, query: StreamingQuery, name: str) -> None:
        self._spark = spark
        self._query = query
        self._name = name
        self._newest_batch = -1

    @property
    def id(self) -> str:
        return str(self._query.id)

    def has_ended(self) -> bool:
        return not self._asked(lambda: self._query.isActive)

    def failure(self) -> QueryFailedError | None:
        """Why the query has ended by itself; None: it was stopped."""
        error = self._asked(lambda: cast(Any, self._query)._jsq.exception())  # noqa: SLF001 - Python drops the causes
        return failure_of(error.get()) if error.isDefined() else None

    def hold(self, *, is_held: bool) -> None:
        self._asked(lambda: fenceline_spark.hold(self._spark, self._name, is_held=is_held))

    def is_holding(self) -> bool:
        return self._asked(lambda: fenceline_spark.is_holding(self._spark, self._name))

    def is_trigger_active(self) -> bool:
        return bool(self._asked(lambda: self._query.status["isTriggerActive"]))

    def stop(self) -> None:
        """Stop it now. An open transaction is aborted."""
        try:
            self._query.stop()
        except Py4JJavaError as error:
            log.warning("the query did not stop in time: %s", first_line(error))
        except (Py4JError, OSError) as error:
            raise _gone(error) from error

    def new_progress(self) -> list[Progress]:
        """The batches that have ended since the last call, oldest first."""
        last = self._progress(self._asked(lambda: [self._query.lastProgress]))
        if not last or last[0].batch <= self._newest_batch:
            return []
        found = last
        if last[0].batch > self._newest_batch + 1:
            found = self._progress(self._asked(lambda: self._query.recentProgress))
        found = [progress for progress in found if progress.batch > self._newest_batch]
        self._newest_batch = last[0].batch
        return found

    def _progress(self, found: Iterable[Any]) -> list[Progress]:
        return [decode(each.json) for each in found if each is not None]

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except (Py4JError, OSError) as error:
            raise _gone(error) from error


def _gone(error: Exception) -> SparkGoneError:
    return SparkGoneError(f"Spark's driver JVM does not answer: {first_line(error)}")


def start(specification: InstanceSpecification, *, is_held: bool) -> RunningQuery:
    """Claim the pipeline's group, check its checkpoint and start the query. Blocks for seconds.

    Args:
        is_held: hold it before its first batch.

    Raises:
        PlanError: the definition has no plan.
        InvalidError: a setting or a secret of the cluster cannot be used.
        QueryFailedError: the sink or Spark refuses to start it.
    """
    protocol.check(specification.protocol_version, peer="the server")
    definition = specification.definition
    query = definition.dataframe
    if query is None:
        raise ValueError(f"{specification.pipeline} is not of kind dataframe")
    client_config = secret_reference.resolve(specification.client_config, environment=os.environ, read_file=read_secret)
    kafka = {f"kafka.{key}": value for key, value in java_settings(client_config).items()}
    spark = SparkSession.builder.getOrCreate()
    name = specification.pipeline
    options = sink_options(specification, kafka)
    begins = _committed_offsets(spark, specification, client_config["bootstrap.servers"], options)
    rows = plan(
        definition,
        spark,
        lambda stream: _source(spark, stream, source_options(definition, query, stream, kafka, begins)),
        transform_source=specification.transform_source,
    )
    try:
        fenceline_spark.hold(spark, name, is_held=is_held)
        started = (
            fenceline_spark.exactly_once(
                rows,
                topic=definition.sink_topic,
                bootstrap_servers=client_config["bootstrap.servers"],
                name=name,
                checkpoint=query.checkpoint,
                writers=definition.tasks_per_instance,
                output_mode=query.output_mode,
                options=options,
            )
            .queryName(name)
            .trigger(processingTime=f"{query.trigger_ms} milliseconds")
            .start()
        )
    except Exception as error:
        raise failure_of(error) from error
    return RunningQuery(spark, started, name)


def _committed_offsets(
    spark: SparkSession, specification: InstanceSpecification, bootstrap_servers: str, options: dict[str, str]
) -> dict[str, dict[str, int]]:
    """The group's offsets of each topic that has any, with all its partitions. Spark reads them from the checkpoint
    instead, unless that is empty.
    """
    try:
        found = fenceline_spark.starting_offsets(
            spark,
            bootstrap_servers=bootstrap_servers,
            name=specification.pipeline,
            topic=specification.definition.sink_topic,
            options=options,
        )
    except Exception as error:
        raise failure_of(error) from error
    return json.loads(found)


def _source(spark: SparkSession, stream: Stream, options: dict[str, str]) -> DataFrame:
    try:
        return spark.readStream.format("kafka").options(**options).load()
    except Exception as error:
        raise failure_of(error, what=f"stream {stream.name}: ") from error


def source_options(
    definition: PipelineDefinition,
    query: DataframeQuery,
    stream: Stream,
    kafka: dict[str, str],
    begins: Mapping[str, Mapping[str, int]],
) -> dict[str, str]:
    """The options of Spark's Kafka source. Only committed records are read, and lost records stop the query.

    begins: the group's offsets by topic and partition. Other topics begin at the start position.
    """
    begin = begins.get(stream.topic)
    options = {
        **kafka,
        **_never_create_topics(),
        "subscribe": stream.topic,
        "startingOffsets": definition.start_position if begin is None else json.dumps({stream.topic: begin}),
        "groupIdPrefix": f"{definition.group_id}-source",
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
    }
    if query.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(max(1, query.max_offsets_per_trigger // len(query.streams)))
    return options


def sink_options(specification: InstanceSpecification, kafka: dict[str, str]) -> dict[str, str]:
    """The options of the sink beside those that `exactly_once` takes. Raises ValueError on other ids of the writers."""
    definition = specification.definition
    ids = [identity.transactional_id or "" for identity in specification.tasks]
    prefix = ids[0].removesuffix(".0")
    if ids != [f"{prefix}.{writer}" for writer in range(len(ids))]:
        raise ValueError(f"the transactional ids of the writers have no common prefix: {', '.join(ids)}")
    session_ms = definition.session_timeout_ms
    name = TaskName(ordinal=specification.ordinal, task=0, lease=specification.lease, attempt=0)
    return {
        **kafka,
        **_never_create_topics(),
        "groupId": definition.group_id,
        "transactionalIdPrefix": prefix,
        "kafka.client.id": client_id_of(specification.pipeline, name),
        "kafka.transaction.timeout.ms": str(definition.transaction_timeout_ms),
        "kafka.session.timeout.ms": str(session_ms),
        "kafka.heartbeat.interval.ms": str(max(1, session_ms // _HEARTBEATS_PER_SESSION)),
    }


def _never_create_topics() -> dict[str, str]:
    return {f"kafka.{key}": str(value).lower() for key, value in NEVER_CREATE_TOPICS.items()}
