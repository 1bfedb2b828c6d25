"""The complete input of one instance: a file of mode 0600, or fetched with the run's token."""

from __future__ import annotations

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.recorded_offset import RecordedOffset
from app.core.wire import protocol


class TaskIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """One task's fixed transactional id; None where tasks have none (exactly_once, at_least_once)."""

    task: int
    transactional_id: str | None


class MappedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The transactional id under which a partition is read in `exactly_once`, by any task."""

    topic: str
    partition: int
    transactional_id: str


class InstanceSpecification(msgspec.Struct, frozen=True, kw_only=True):
    """The complete input of one instance. `run_token` is its only secret; others are references (`env:`, `file:`).

    server_urls: addresses of the workers' listener, tried in order; empty means: run without a server.
    client_config: librdkafka settings of the cluster (bootstrap.servers, security), secrets still as references.
    lease: the number of this lease of the ordinal; grows each time; a claim of an old number is refused.
    database_epoch: identity of the database at the submission; it differs after a restore.
    recorded: the last confirmed offsets of the group. If the group has lost one, no partition is started at the start
        position. A worker without this field starts it, as before.
    native_records: whether C may hold records. A worker without this field uses Python objects.
    transform_source: text of the uploaded Python file, if the transform is `python` (its SHA-256 is in the revision).
    """

    protocol_version: int = protocol.CURRENT
    fenceline_version: str
    pipeline: str
    revision: int
    run_id: str
    ordinal: int
    lease: int
    database_epoch: str
    definition: PipelineDefinition
    client_config: dict[str, str]
    tasks: tuple[TaskIdentity, ...]
    mappings: tuple[MappedPartition, ...] = ()
    recorded: tuple[RecordedOffset, ...] = ()
    server_urls: tuple[str, ...] = ()
    run_token: str = ""
    transform_source: str | None = None
    start_paused: bool = False
    native_records: bool = True


def encode(specification: InstanceSpecification) -> bytes:
    """Encode in the oldest version with its meaning.

    Workers of version 1 refuse a definition with an unknown field, so version 1 is used without files. With files they
    must refuse it, since they would write records.
    """
    said = msgspec.to_builtins(specification)
    if specification.definition.files is None:
        del said["definition"]["files"]
    else:
        said["protocol_version"] = max(specification.protocol_version, protocol.FILES)
    if specification.definition.dataframe is not None:
        said["protocol_version"] = max(specification.protocol_version, protocol.DATAFRAMES)
    return msgspec.json.encode(said)


def decode(data: bytes) -> InstanceSpecification:
    """Raises UnsupportedProtocolError before it reads the rest, msgspec.ValidationError on a malformed message."""
    header = msgspec.json.decode(data, type=_SpecificationHeader)
    protocol.check(header.protocol_version, peer="the server")
    return msgspec.json.decode(data, type=InstanceSpecification)


class _SpecificationHeader(msgspec.Struct):
    protocol_version: int = -1
