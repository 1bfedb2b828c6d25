"""The report on a cluster's transactional guarantees, for an operator to pass on.

The JSON of `fenceline conformance --json` is `Report`; docs/conformance.schema.json is its schema. Within one
`schema_version` fields are added, and never taken away or given another meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

SCHEMA_VERSION = 1


class Promise(StrEnum):
    """The five guarantees of KIP-98, and those that it describes beside them."""

    ATOMICITY = "atomicity"
    DURABILITY = "durability"
    ORDERING = "ordering"
    INTERLEAVING = "interleaving"
    NO_DUPLICATES = "no_duplicates"
    FAILURES = "failures"
    FENCING = "fencing"
    COMPACTION = "compaction"


class ConformanceVerdict(StrEnum):
    """The verdict of a check.

    kept: tried and observed. broken: the opposite was observed. at_risk: the cluster's settings allow a violation.
    not_shown: it cannot be observed from outside, or did not happen in time. not_checked: it could not be tried.
    """

    KEPT = "kept"
    BROKEN = "broken"
    AT_RISK = "at_risk"
    NOT_SHOWN = "not_shown"
    NOT_CHECKED = "not_checked"


class ConformanceFinding(msgspec.Struct, frozen=True):
    """A verdict with the observation, or the reason why there is none."""

    verdict: ConformanceVerdict
    said: str


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """One check. `check` is its stable name; `claim` is the guarantee that it checks."""

    check: str
    promise: Promise
    claim: str
    verdict: ConformanceVerdict
    said: str
    took_s: float


class CheckedBroker(msgspec.Struct, frozen=True, kw_only=True):
    """version: derived from the API versions that it offers, such as `4.3`; None: unknown."""

    id: int
    version: str | None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that affects transactions. values: one if all brokers agree; empty: none reported it."""

    name: str
    values: tuple[str, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The observations of one run.

    client: the librdkafka of the checks. features: their finalized levels, such as transaction.version.
    replication_factor: of the created topics. left_behind: topics and groups that could not be deleted.
    is_complete: False if the run was stopped before its end.
    """

    at: datetime
    fenceline_version: str
    client_version: str
    bootstrap_servers: str
    cluster_id: str
    brokers: tuple[CheckedBroker, ...]
    features: dict[str, int]
    settings: tuple[Setting, ...]
    replication_factor: int
    results: tuple[CheckResult, ...]
    left_behind: tuple[str, ...]
    is_complete: bool
    schema_version: int = SCHEMA_VERSION


def kept(said: str) -> ConformanceFinding:
    return ConformanceFinding(ConformanceVerdict.KEPT, said)


def broken(said: str) -> ConformanceFinding:
    return ConformanceFinding(ConformanceVerdict.BROKEN, said)


def at_risk(said: str) -> ConformanceFinding:
    return ConformanceFinding(ConformanceVerdict.AT_RISK, said)


def not_shown(said: str) -> ConformanceFinding:
    return ConformanceFinding(ConformanceVerdict.NOT_SHOWN, said)


def not_checked(said: str) -> ConformanceFinding:
    return ConformanceFinding(ConformanceVerdict.NOT_CHECKED, said)


def summary(results: Sequence[CheckResult]) -> str:
    """`9 kept, 1 at risk, 2 not shown`: every verdict that occurs, in their order."""
    counts = Counter(one.verdict for one in results)
    return ", ".join(f"{counts[verdict]} {words(verdict)}" for verdict in ConformanceVerdict if counts[verdict])


def words(verdict: ConformanceVerdict) -> str:
    return verdict.replace("_", " ")
