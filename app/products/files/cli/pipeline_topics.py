"""The topics of a pipeline's references, and the roots of its files."""

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
    """The data about a pipeline that is required to find its files.

    connections: client settings of each sink topic that it has had, by cluster name and topic, with resolved secrets.
    cluster_ids: by name, from the server; empty without one.
    roots: all roots that it has had; None: not known, so references are trusted.
    definitions: of all revisions that write files; empty without a server.
    """

    pipeline: str
    connections: Mapping[tuple[str, str], Mapping[str, str]]
    cluster_ids: Mapping[str, str]
    roots: tuple[str, ...] | None
    definitions: tuple[PipelineDefinition, ...]
    created_at: datetime | None


def of_server(pipeline: str) -> PipelineTopics:
    """Return the topics of all revisions on the server. Raises CommandError if none writes files."""
    client = connect()
    found = as_record(client.get(f"/pipelines/{pipeline}"), Pipeline)
    revisions = [as_record(item, Revision) for item in client.get(f"/pipelines/{pipeline}/revisions")["items"]]
    writing = [(one.definition, one.definition.files) for one in revisions if one.definition.files is not None]
    if not writing:
        raise CommandError(
            f"{pipeline} writes records to {found.definition.sink_topic}, not files; see `fenceline log`",
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
    """Return the topic of the options, without a server. Its references are trusted."""
    if topic is None:
        raise CommandError("--bootstrap-server requires --topic, the sink topic", code=ExitCode.USAGE)
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
    """Open its sink topics until the end. Raises CommandError if another cluster answers at an address."""
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
