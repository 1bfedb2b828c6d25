"""The Spark conf keys that pipelines may set, those that Fenceline sets itself, and why.

Only tuning is listed: many Spark settings run code (`extraJavaOptions`, `plugins`, `extraListeners`), fetch it
(`spark.jars.packages`) or open ports.
"""

from __future__ import annotations

from app.core.allow_lists.option_values import BOOLEAN, Decimal, Duration, OneOf, Size, ValueRule, Whole

_HOUR_S = 3_600
_TIB = 1_048_576

CONF: dict[str, ValueRule] = {
    "spark.cleaner.periodicGC.interval": Duration(60, 24 * _HOUR_S),
    # Spark refuses to start with less than 450 MiB.
    "spark.driver.memory": Size(450, _TIB),
    "spark.driver.memoryOverhead": Size(0, _TIB),
    "spark.executor.heartbeatInterval": Duration(1, 60),
    "spark.executor.memoryOverhead": Size(0, _TIB),
    "spark.executor.pyspark.memory": Size(64, _TIB),
    "spark.io.compression.codec": OneOf(("lz4", "lzf", "snappy", "zstd")),
    "spark.locality.wait": Duration(0, 60),
    "spark.log.level": OneOf(("ERROR", "WARN", "INFO", "DEBUG")),
    "spark.memory.fraction": Decimal(0.1, 0.9),
    "spark.memory.storageFraction": Decimal(0, 0.9),
    # Below Kafka's session timeout Spark would start a second attempt beside one that is only blocked.
    "spark.network.timeout": Duration(60, _HOUR_S),
    "spark.rpc.askTimeout": Duration(10, _HOUR_S),
    "spark.rpc.lookupTimeout": Duration(10, _HOUR_S),
    "spark.rpc.message.maxSize": Whole(1, 2_047),
    "spark.rpc.numRetries": Whole(1, 100),
    "spark.scheduler.minRegisteredResourcesRatio": Decimal(0, 1),
    "spark.shuffle.compress": BOOLEAN,
}

_SHAPE = "the fields instances and tasks_per_instance set the number of tasks and cores"
_ONE_ATTEMPT = "it could run two attempts of one task side by side"
_RETRIES = "the loop has its own back-off and ends by itself"
_RUNS_CODE = "it runs code that is not part of the pipeline"
_OURS = "Fenceline sets it"
_TRUST = "it opens ports or exposes data that Fenceline protects"

LOCKED: dict[str, str] = {
    "spark.app.name": "Fenceline names the application, so that its run can be found",
    "spark.barrier.sync.timeout": _SHAPE,
    "spark.cores.max": _SHAPE,
    "spark.driver.extraJavaOptions": _OURS,
    "spark.eventLog.enabled": _OURS,
    "spark.executor.cores": _SHAPE,
    "spark.executor.extraJavaOptions": _OURS,
    "spark.executor.instances": _SHAPE,
    "spark.excludeOnFailure.enabled": _RETRIES,
    "spark.executor.memory": "the field spark.executor_memory_mb sets it",
    "spark.local.dir": _OURS,
    "spark.master": "the field spark.master sets it",
    "spark.python.worker.reuse": "a reused worker could keep the group membership of a task that has ended",
    "spark.stage.maxConsecutiveAttempts": _RETRIES,
    "spark.submit.deployMode": "the form of the master sets it",
    "spark.task.cpus": _SHAPE,
    "spark.task.maxFailures": _RETRIES,
}

LOCKED_PREFIXES: tuple[tuple[str, str], ...] = (
    ("spark.acls", _TRUST),
    ("spark.admin.", _TRUST),
    ("spark.authenticate", _TRUST),
    ("spark.dynamicAllocation.", _SHAPE),
    ("spark.extraListeners", _RUNS_CODE),
    ("spark.fenceline.", _OURS),
    ("spark.pyspark.", _RUNS_CODE),
    ("spark.speculation", _ONE_ATTEMPT),
    ("spark.task.reaper.", "it ends blocked attempts"),
    ("spark.ui.enabled", _TRUST),
    ("spark.ui.killEnabled", _TRUST),
)
"""Keys with one of these prefixes are refused, even if an administrator's list names them."""
