"""Where a pipeline's references are, and where its files may be."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime

import msgspec

from app.cli.client import Client, as_record, connect, settings_or_exit
from app.cli.direct import answered, connection_of
from app.cli.errors import CommandError, ExitCode
from app.domain.clusters.cluster import Cluster
from app.domain.pipelines.pipeline import FileSink, PipelineDefinition
from app.domain.pipelines.pipeline_record import Pipeline, Revision
from app.files.topic import Topic
from app.kafka.connections import resolve


class PipelineTopics(msgspec.Struct, frozen=True, kw_only=True):
    """What must be known of a pipeline to find its files.

    connections: of each sink topic that it ever wrote references to, by name of the cluster, then of the topic; as a
        client is given them, with secrets resolved.
    roots: that it ever wrote files to; None: not known, so that references are believed.
    definitions: of all revisions that write files; empty where no server was asked.
    """

    pipeline: str
    connections: Mapping[tuple[str, str], Mapping[str, str]]
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
    clusters = {name: _connection(client, name) for name in {definition.cluster for definition, _ in writing}}
    return PipelineTopics(
        pipeline=pipeline,
        connections={
            (definition.cluster, definition.sink_topic): clusters[definition.cluster] for definition, _ in writing
        },
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
        roots=None,
        definitions=(),
        created_at=None,
    )


@contextmanager
def opened(known: PipelineTopics) -> Generator[Sequence[Topic]]:
    """Its sink topics, closed at the end."""
    with ExitStack() as stack:
        topics: list[Topic] = []
        for (_, name), connection in known.connections.items():
            topic = answered(lambda name=name, connection=connection: Topic(name, connection))
            stack.callback(topic.close)
            topics.append(topic)
        yield topics


def _connection(client: Client, cluster: str) -> Mapping[str, str]:
    return _resolved(as_record(client.get(f"/clusters/{cluster}"), Cluster).connection())


def _resolved(connection: Mapping[str, str]) -> Mapping[str, str]:
    secrets_dir = settings_or_exit().secrets_dir
    return answered(lambda: resolve(connection, environment=os.environ, secrets_dir=secrets_dir))


def _root(files: FileSink) -> str:
    return files.root
