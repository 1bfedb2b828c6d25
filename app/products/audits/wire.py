"""Messages between an audit's driver and the server. The result is also a file, so no server is needed at run time.

HTTP on the workers' listener, JSON bodies, `Authorization: Bearer <token>`:
  POST /workers/v1/audit/claim      AuditClaim    -> ClaimAnswer   409 when the audit is not to be run (any more)
  POST /workers/v1/audit/progress   AuditProgress -> AuditAnswer   once a second
  POST /workers/v1/audit/outcome    AuditOutcome  -> {}            repeated until it is answered, within a bound

The driver (workers/spark/audit_driver.py) is started as `… --specification FILE --outcome FILE` in the audit's folder.
The specification file has the order; the driver deletes it after reading it. It ends at a SIGTERM to the Python
driver's pid.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from app.core.wire import protocol
from app.products.audits.result import AuditResult
from app.products.audits.specification import AuditSpecification

CLAIM_PATH = "/workers/v1/audit/claim"
PROGRESS_PATH = "/workers/v1/audit/progress"
OUTCOME_PATH = "/workers/v1/audit/outcome"


class AuditOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A specification with the settings of its execution, passed as a file of mode 0600.

    token: the only secret in it; others are references (`env:`, `file:`), resolved by the process that uses them.
    client_config: librdkafka settings of the cluster (bootstrap.servers, security).
    server_urls: addresses of the workers' listener, tried in order; empty: run without a server.
    """

    protocol_version: int = protocol.CURRENT
    fenceline_version: str
    specification: AuditSpecification
    client_config: dict[str, str]
    server_urls: tuple[str, ...] = ()
    token: str = ""


class AuditClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The first request of a driver. A repeated claim with the same application id is granted again."""

    protocol_version: int = protocol.CURRENT
    fenceline_version: str
    python_version: str
    audit_id: str
    application_id: str
    host: str
    jvm_pid: int | None
    python_pid: int
    process_started_at_ms: int


class AuditStage(StrEnum):
    """The stages in their order. RESOLVING: convert the window to offsets and files, and wait for open transactions."""

    RESOLVING = "resolving"
    READING = "reading"
    COMPARING = "comparing"
    DESCRIBING = "describing"


class AuditProgressReport(msgspec.Struct, frozen=True, kw_only=True):
    """`offsets`: number of offsets to read in total, 0 until it is known. Records are counted as tasks end."""

    protocol_version: int = protocol.CURRENT
    audit_id: str
    application_id: str
    sent_at_ms: int
    stage: AuditStage
    tasks_done: int = 0
    tasks: int = 0
    offsets: int = 0


class AuditAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`is_wanted` False: end now, without a result."""

    protocol_version: int = protocol.CURRENT
    is_wanted: bool


class AuditEnd(StrEnum):
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class AuditOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome, sent to the server and written as `outcome.json` in the audit's folder. `result`: only with DONE."""

    protocol_version: int = protocol.CURRENT
    audit_id: str
    application_id: str
    kind: AuditEnd
    message: str = ""
    result: AuditResult | None = None


def encode(order: AuditOrder) -> bytes:
    """Encode an order in the oldest suitable protocol version.

    Version 1 would take references for outputs, and version 2 a comparison for an audit. Version 3 has no
    recomputation.
    """
    comparison = order.specification.comparison
    if comparison is not None:
        version = protocol.DATAFRAMES if comparison.is_recomputation else protocol.COMPARISONS
        order = msgspec.structs.replace(order, protocol_version=version)
    elif order.specification.files is not None:
        order = msgspec.structs.replace(order, protocol_version=max(order.protocol_version, protocol.FILES))
    return msgspec.json.encode(order)


def decode(data: bytes) -> AuditOrder:
    """Decode an order.

    Raises UnsupportedProtocolError first, then msgspec.ValidationError for a malformed message.
    """
    header = msgspec.json.decode(data, type=_AuditOrderHeader)
    protocol.check(header.protocol_version, peer="the server")
    return msgspec.json.decode(data, type=AuditOrder)


class _AuditOrderHeader(msgspec.Struct):
    protocol_version: int = -1
