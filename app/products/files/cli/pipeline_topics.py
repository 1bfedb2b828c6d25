"""Where a pipeline's references are, and where its files may be."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime

import msgspec

from app.core.clusters.cluster import Cluster
from app.core.pipelines.pipeline import FileSink, PipelineDefinition
from app.core.pipelines.pipeline_record import Pipeline, Revision
from app.edges.kafka.cli.direct import answered, connection_of
from app.edges.kafka.connections import resolve
from app.kit.cli.client import as_record, connect, settings_or_exit
from app.kit.cli.errors import CommandError, ExitCode
from app.products.files.reader.topic import Topic


class PipelineTopics(msgspec.Struct, frozen=True, kw_only=True):
    """What must be known of a pipeline to find its files.

    connections: of each sink topic that it ever wrote references to, by name of the cluster, then of the topic; as a
        client is given them, with secrets resolved.
    cluster_ids: by name, as the server knows them; empty where none was asked.
    roots: that it ever wrote files to; None: not known, so that references are believed.
    definitions: of all revisions that write files; empty where no server was asked.
    """

    pipeline: str
    connections: Mapping[tuple[str, str], Mapping[str, str]]
    cluster_ids: Mapping[str, str]
    roots: tuple[str, ...] | None
    definitions: tuple[PipelineDefinition, ...]
    created_at: datetime | None


def of_server(pipeline: str) -> PipelineTopics:
    """By all revisions of a pipeline that the server knows. Raises CommandError when it writes no files."""
    client = connect()
    found = as_record(client.get(f"/pipelines/{pipeline}"), Pipeline)
    revisions = [as_record(item, Revision) for item in client.get(f"/pipelines/{pipeline}/revisions")["items"]]
    writing = [(one.definition, one.definition.files) for one in revisions if one.definition.files is not None]
    if not writing:
        raise CommandError(
            f"{pipeline} writes records to {found.definition.sink_topic}, no files; `fenceline log` shows them",
            code=ExitCode.USAGE,
        )
    clusters = {
        name: as_record(client.get(f"/clusters/{name}"), Cluster)
        for name in {definition.cluster for definition, _ in writing}
    }
    resolved = {name: _resolved(cluster.connection()) for name, cluster in clusters.items()}
    return PipelineTopics(
        pipeline=pipeline,
        connections={
            (definition.cluster, definition.sink_topic): resolved[definition.cluster] for definition, _ in writing
        },
        cluster_ids={name: cluster.kafka_cluster_id for name, cluster in clusters.items()},
        roots=tuple(dict.fromkeys(_root(files) for _, files in writing)),
        definitions=tuple(definition for definition, _ in writing),
        created_at=found.created_at,
    )


def direct(pipeline: str, bootstrap_server: str, config: list[str] | None, topic: str | None) -> PipelineTopics:
    """Without a server: what a topic says is believed."""
    if topic is None:
        raise CommandError("--bootstrap-server goes with --topic, the sink topic", code=ExitCode.USAGE)
    connection = _resolved(connection_of(bootstrap_server, config))
    return PipelineTopics(
        pipeline=pipeline,
        connections={(bootstrap_server, topic): connection},
        cluster_ids={},
        roots=None,
        definitions=(),
        created_at=None,
    )


@contextmanager
def opened(known: PipelineTopics) -> Generator[Sequence[Topic]]:
    """Its sink topics, closed at the end. Raises CommandError where another cluster is at the address of one."""
    with ExitStack() as stack:
        topics: list[Topic] = []
        for (cluster, name), connection in known.connections.items():
            topic = answered(lambda name=name, connection=connection: Topic(name, connection))
            stack.callback(topic.close)
            if (cluster_id := known.cluster_ids.get(cluster)) is not None:
                answered(lambda topic=topic, at=cluster, id_=cluster_id: topic.require_cluster(at, id_))
            topics.append(topic)
        yield topics


def _resolved(connection: Mapping[str, str]) -> Mapping[str, str]:
    secrets_dir = settings_or_exit().secrets_dir
    return answered(lambda: resolve(connection, environment=os.environ, secrets_dir=secrets_dir))


def _root(files: FileSink) -> str:
    return files.root
