"""What services ask of the database about definitions, runs and access. Hot task state: app/ports/task_repository.py.

`get` raises NotFoundError with a sentence, `find` returns None. `for_update=True` locks the row until the unit of work
ends, so that a decision that is made on it still holds when it is written. Nothing here commits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from app.domain.access import Link, Principal, Role, RunTokenScope, Session, Token
from app.domain.clusters.cluster import Cluster
from app.domain.command import Command
from app.domain.page import Page
from app.domain.pipelines.pipeline_record import Pipeline, Revision, TransformSource
from app.domain.runs.instance import Instance
from app.domain.runs.run import DesiredRunState, Run, RunEnd
from app.domain.transactions.mapping import IdKind, TransactionalIdOwner


class ClusterRepository(Protocol):
    async def add(self, cluster: Cluster) -> None:
        """Raises ConflictError when the name is taken."""
        ...

    async def get(self, name: str) -> Cluster: ...

    async def list_all(self) -> list[Cluster]: ...

    async def remove(self, name: str) -> None:
        """Raises ConflictError while a pipeline names it."""
        ...


class PipelineRepository(Protocol):
    async def add(self, *, name: str, revision: Revision, cluster: str) -> Pipeline:
        """Keep a new pipeline with its first revision. Raises ConflictError when name or consumer group is taken."""
        ...

    async def get(self, name: str, *, for_update: bool = False) -> Pipeline: ...

    async def find(self, name: str) -> Pipeline | None: ...

    async def list(self, *, after: str | None, limit: int) -> Page[Pipeline]:
        """By name."""
        ...

    async def list_all(self) -> list[Pipeline]:
        """Every pipeline, by name."""
        ...

    async def add_revision(self, revision: Revision) -> None:
        """Keep the next revision and make it the current one. Raises ConflictError when another change was first."""
        ...

    async def get_revision(self, name: str, number: int) -> Revision: ...

    async def list_revisions(self, name: str) -> list[Revision]:
        """Newest first."""
        ...

    async def remove(self, name: str) -> None:
        """Remove the pipeline with all that hangs on it; the command log stays."""
        ...

    async def store_source(self, source: TransformSource) -> None:
        """Keep a source text by its SHA-256; the same text again changes nothing."""
        ...

    async def get_source(self, sha256: str) -> TransformSource: ...

    async def find_source(self, sha256: str) -> TransformSource | None: ...


class TransactionalIdRepository(Protocol):
    async def claim(self, *, pipeline: str, kafka_cluster_id: str, ids: Sequence[tuple[str, int, int]]) -> None:
        """Make the pipeline the owner of its tasks' (id, ordinal, task)s.

        Raises ConflictError naming an id that another pipeline owns, or that this one has for something else.
        """
        ...

    async def claim_for_partitions(
        self, *, pipeline: str, kafka_cluster_id: str, ids: Collection[str], kind: IdKind
    ) -> None:
        """Make the pipeline the owner of ids that are no task's. Raises ConflictError as `claim` does."""
        ...

    async def archive(
        self, *, pipeline: str, kafka_cluster_id: str, ids: Collection[str], migration: str, now: datetime
    ) -> None:
        """Mark ids of the pipeline as given up by its migration; one that is marked already stays as it is."""
        ...

    async def use_again(self, *, pipeline: str, kafka_cluster_id: str, ids: Collection[str], partitions: bool) -> None:
        """Take the mark from these ids of the pipeline, and from all that are no task's where `partitions`."""
        ...

    async def release(self, *, pipeline: str, kind: IdKind) -> list[str]:
        """Give up the pipeline's ids of this kind; which they were."""
        ...

    async def of_cluster(self, *, kafka_cluster_id: str) -> list[TransactionalIdOwner]:
        """Every id that some pipeline owns on this cluster, in no order."""
        ...

    async def owners(self, *, kafka_cluster_id: str, ids: Collection[str]) -> list[TransactionalIdOwner]: ...

    async def names(self, *, kafka_cluster_id: str) -> list[str]:
        """Every id that some pipeline owns on this cluster, in no order."""
        ...

    async def of_pipeline(self, pipeline: str) -> list[TransactionalIdOwner]: ...

    async def by_pipeline(self) -> dict[str, frozenset[str]]:
        """Every id that is owned, by the name of its pipeline."""
        ...


class RunRepository(Protocol):
    async def add(self, *, pipeline: str, revision: int, by: str, now: datetime) -> Run:
        """Raises ConflictError while another run of the pipeline lives."""
        ...

    async def get(self, run_id: str, *, for_update: bool = False) -> Run: ...

    async def get_many(self, run_ids: Sequence[str]) -> list[Run]:
        """Those of the runs that exist, in no order."""
        ...

    async def find_live(self, pipeline: str) -> Run | None: ...

    async def list_live(self) -> list[Run]: ...

    async def list(self, *, pipeline: str | None, after: str | None, limit: int) -> Page[Run]:
        """Newest first."""
        ...

    async def set_desired(self, run_id: str, desired: DesiredRunState, *, starts_again: bool | None = None) -> None: ...

    async def set_target(self, run_id: str, *, revision: int, bounce_requested_at: datetime | None) -> None: ...

    async def set_targets(self, run_id: str, targets: Mapping[int, int]) -> None:
        """The revision of the next lease of each of these ordinals; of all others it is the run's."""
        ...

    async def end(self, run_id: str, *, end: RunEnd, reason: str | None, now: datetime) -> None: ...


class InstanceRepository(Protocol):
    async def add(self, instance: Instance) -> None:
        """Raises ConflictError while an earlier lease of the ordinal lives, or when the number does not grow."""
        ...

    async def get(self, run_id: str, ordinal: int, lease: int, *, for_update: bool = False) -> Instance: ...

    async def find_current(self, run_id: str, ordinal: int, *, for_update: bool = False) -> Instance | None: ...

    async def list(self, run_id: str, *, with_history: bool) -> list[Instance]:
        """By ordinal, then by falling lease; without history only the highest lease of each ordinal."""
        ...

    async def ended_since(self, moment: datetime) -> Sequence[Instance]:
        """Leases of all runs that an application had claimed and that have ended since then, oldest first."""
        ...

    async def save(self, instance: Instance) -> None:
        """Write every column but the newest heartbeat's, which `touch` writes."""
        ...

    async def touch(
        self,
        *,
        run_id: str,
        ordinal: int,
        lease: int,
        now: datetime,
        executors: int,
        tasks_running: int,
        tasks_waiting: int,
        tasks_crashing: int,
    ) -> None:
        """Write what a driver's heartbeat says; one statement, once a second."""
        ...


class StoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a command with an idempotency key was answered; `body` None: it is being carried out now."""

    request_sha256: str
    status: int | None
    body: Any


class AccessRepository(Protocol):
    """Tokens, sessions, one-time links and run tokens. Only SHA-256 sums of secrets come here."""

    async def add_token(self, *, name: str, role: Role, secret_sha256: str, by: str, now: datetime) -> Token:
        """Raises ConflictError when a token of that name is valid."""
        ...

    async def list_tokens(self) -> list[Token]: ...

    async def find_token(self, secret_sha256: str, *, now: datetime) -> Token | None:
        """A token that is not revoked; notes (at most once a minute) that it was used."""
        ...

    async def revoke_token(self, name: str, *, now: datetime) -> Token:
        """Revoke the valid token of that name and end its sessions."""
        ...

    async def add_link(
        self, *, principal: Principal, secret_sha256: str, expires_at: datetime, by: str, now: datetime
    ) -> None: ...

    async def take_link(self, secret_sha256: str, *, now: datetime) -> Link | None:
        """Use a link up. None: unknown, used or expired. Of two at once, one gets it."""
        ...

    async def add_session(
        self,
        *,
        principal: Principal,
        secret_sha256: str,
        token_id: str | None,
        link: Link | None,
        expires_at: datetime,
        now: datetime,
    ) -> Session: ...

    async def find_sessions(self, secret_sha256s: Collection[str], *, now: datetime) -> dict[str, Session]:
        """Those that have neither expired nor been ended, by the sum of their secret; notes their use, as of tokens."""
        ...

    async def list_sessions(self, *, now: datetime) -> list[Session]:
        """The same, all of them, newest first, with the names of their tokens."""
        ...

    async def end_session(self, session_id: str, *, now: datetime) -> Session:
        """Raises NotFoundError unless it is one of those."""
        ...

    async def revoke_session(self, secret_sha256: str, *, now: datetime) -> None: ...

    async def add_run_token(self, *, scope: RunTokenScope, secret_sha256: str, now: datetime) -> None:
        """Raises ConflictError when the lease has its token already."""
        ...

    async def find_run_token(self, secret_sha256: str) -> RunTokenScope | None: ...

    async def claim_key(self, *, principal: str, key: str, request_sha256: str, now: datetime) -> StoredAnswer | None:
        """Take an idempotency key: None when it is ours now, else what is stored, after its holder has committed."""
        ...

    async def store_answer(self, *, principal: str, key: str, status: int, body: Any) -> None: ...


class CommandRepository(Protocol):
    async def add(
        self,
        *,
        at: datetime,
        by: Principal,
        verb: str,
        target: str,
        why: str | None,
        details: dict[str, Any],
        outcome: str,
    ) -> Command: ...

    async def since(self, moment: datetime, *, targets: Collection[str], verbs: Collection[str]) -> Sequence[Command]:
        """All of these targets and verbs, oldest first."""
        ...

    async def list(self, *, target: str | None, after: str | None, limit: int) -> Page[Command]:
        """Newest first."""
        ...
