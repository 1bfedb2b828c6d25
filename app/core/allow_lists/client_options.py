"""The librdkafka options that pipelines may set, those that the loop locks, and why.

Names, ranges and aliases are those of librdkafka's CONFIGURATION.md; tests compare every entry with the installed one.
Only tuning is listed. All other options are refused by default: some of librdkafka's options load shared libraries or
run commands.
"""

from __future__ import annotations

from app.core.allow_lists.option_values import BOOLEAN, Decimal, OneOf, ValueRule, Whole, WordRule

_MAX_INT = 2_147_483_647

_BOTH: dict[str, ValueRule] = {
    "broker.address.family": OneOf(("any", "v4", "v6")),
    "connections.max.idle.ms": Whole(0, _MAX_INT),
    "metadata.max.age.ms": Whole(1, 86_400_000),
    "reconnect.backoff.max.ms": Whole(0, 3_600_000),
    "reconnect.backoff.ms": Whole(0, 3_600_000),
    "retry.backoff.max.ms": Whole(1, 300_000),
    "retry.backoff.ms": Whole(1, 300_000),
    "socket.connection.setup.timeout.ms": Whole(1_000, _MAX_INT),
    "socket.keepalive.enable": BOOLEAN,
    "socket.nagle.disable": BOOLEAN,
    "socket.receive.buffer.bytes": Whole(0, 100_000_000),
    "socket.send.buffer.bytes": Whole(0, 100_000_000),
    "socket.timeout.ms": Whole(10, 300_000),
    "topic.metadata.refresh.interval.ms": Whole(10, 3_600_000),
}

CONSUMER: dict[str, ValueRule] = _BOTH | {
    "check.crcs": BOOLEAN,
    "client.rack": WordRule(),
    "fetch.error.backoff.ms": Whole(0, 300_000),
    # librdkafka refuses to start below its `message.max.bytes`, which is 1,000,000.
    "fetch.max.bytes": Whole(1_000_000, 2_147_483_135),
    "fetch.min.bytes": Whole(1, 100_000_000),
    # 0 keeps a core busy whenever the queue is full and not drained, as on a paused pipeline.
    "fetch.queue.backoff.ms": Whole(1, 300_000),
    "fetch.wait.max.ms": Whole(0, 300_000),
    "group.remote.assignor": WordRule(),
    "max.partition.fetch.bytes": Whole(1, 1_000_000_000),
    "max.poll.interval.ms": Whole(1, 86_400_000),
    "queued.max.messages.kbytes": Whole(1, 2_097_151),
    "queued.min.messages": Whole(1, 10_000_000),
}

PRODUCER: dict[str, ValueRule] = _BOTH | {
    "batch.num.messages": Whole(1, 1_000_000),
    "batch.size": Whole(1, _MAX_INT),
    "compression.level": Whole(0, 12),
    "compression.type": OneOf(("none", "gzip", "snappy", "lz4", "zstd")),
    "linger.ms": Decimal(0, 900_000),
    # Idempotence keeps the order of at most 5 requests.
    "max.in.flight.requests.per.connection": Whole(1, 5),
    "message.copy.max.bytes": Whole(0, 1_000_000_000),
    "message.max.bytes": Whole(1_000, 1_000_000_000),
    # 0 would mean to retry for ever; less than a second ends before a new leader can be found.
    "message.timeout.ms": Whole(1_000, _MAX_INT),
    "partitioner": OneOf(
        ("random", "consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random")
    ),
    # The loop passes batches of up to 2,000 records.
    "queue.buffering.max.kbytes": Whole(1_024, _MAX_INT),
    "queue.buffering.max.messages": Whole(2_000, _MAX_INT),
    "request.timeout.ms": Whole(1, 900_000),
    "sticky.partitioning.linger.ms": Whole(0, 900_000),
}

ALIASES: dict[str, str] = {
    "compression.codec": "compression.type",
    "delivery.timeout.ms": "message.timeout.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "queue.buffering.max.ms": "linger.ms",
}
"""Other names of a listed option in librdkafka."""

_EXACTLY_ONCE = "the exactly-once loop depends on it"
_CLUSTER = "it belongs to the cluster, which an administrator defines"
_RUNS_CODE = "it loads code or runs commands"
_CALLBACK = "it is a callback, not a setting"

NEVER_CREATE_TOPICS: dict[str, bool] = {"allow.auto.create.topics": False}
"""Set in every client of Fenceline. By default librdkafka's producers and admin clients ask brokers to create the
topics that they look up, and brokers do so."""

_LOCKED_BOTH: dict[str, str] = {
    "bootstrap.servers": _CLUSTER,
    "metadata.broker.list": _CLUSTER,
    "plugin.library.paths": _RUNS_CODE,
    "client.id": "Fenceline names its clients, so that their owner can be found",
    "allow.auto.create.topics": "a misspelt topic would be created without an error",
}

LOCKED_CONSUMER: dict[str, str] = _LOCKED_BOTH | {
    "auto.commit.enable": _EXACTLY_ONCE,
    "auto.commit.interval.ms": _EXACTLY_ONCE,
    "auto.offset.reset": "the loop decides where a partition begins; use the field start_position",
    "enable.auto.commit": f"{_EXACTLY_ONCE}: offsets are committed with the outputs and never alone",
    "enable.auto.offset.store": _EXACTLY_ONCE,
    "enable.partition.eof": _EXACTLY_ONCE,
    "group.id": "the field group_id sets it",
    "group.instance.id": (
        "a static member keeps its partitions after it has left, and the loop releases them when it stops"
    ),
    "group.protocol": "the field group_protocol sets it",
    "heartbeat.interval.ms": "it is a quarter of session_timeout_ms (the broker's own with KIP-848)",
    "isolation.level": f"{_EXACTLY_ONCE}: with read_uncommitted it would process records that are aborted later",
    "offset.store.method": _EXACTLY_ONCE,
    "partition.assignment.strategy": "the field group_protocol sets it; the loop is built for cooperative-sticky",
    "session.timeout.ms": "the field session_timeout_ms sets it",
}

LOCKED_PRODUCER: dict[str, str] = _LOCKED_BOTH | {
    "acks": f"{_EXACTLY_ONCE}: every output waits for all in-sync replicas",
    "delivery.report.only.error": _EXACTLY_ONCE,
    "enable.gapless.guarantee": _EXACTLY_ONCE,
    "enable.idempotence": f"{_EXACTLY_ONCE}: without it a resent record is duplicated in the log",
    "message.send.max.retries": _EXACTLY_ONCE,
    "request.required.acks": f"{_EXACTLY_ONCE}: every output waits for all in-sync replicas",
    "retries": _EXACTLY_ONCE,
    "statistics.interval.ms": "the loop reads the producer's id and epoch from the statistics",
    "transaction.timeout.ms": "the field transaction_timeout_ms sets it",
    "transactional.id": "Fenceline names the ids, so that no two pipelines share one",
}

LOCKED_PREFIXES: tuple[tuple[str, str], ...] = (
    ("security.", _CLUSTER),
    ("sasl.", _CLUSTER),
    ("ssl.", _CLUSTER),
    ("enable.ssl.", _CLUSTER),
    ("enable.sasl.", _CLUSTER),
    ("https.", _CLUSTER),
    ("plugin.", _RUNS_CODE),
)
LOCKED_SUFFIXES: tuple[tuple[str, str], ...] = (("_cb", _CALLBACK), ("on_delivery", _CALLBACK))
