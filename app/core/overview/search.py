"""Find by a part of the name: pipelines, clusters, groups, transactional ids, topics; runs and fencing events by id."""

from __future__ import annotations

import asyncio
import heapq
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum

import msgspec

from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.fencing.service import feed as fencing_feed
from app.core.journals.group_records import TOPIC as GROUPS
from app.core.observing.snapshot import Snapshot
from app.core.pipelines.store import PipelineStore
from app.core.runs.store.runs import RunStore
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, NotFoundError

MOST_OF_A_KIND = 8
_PIPELINES = 1_000
_ANSWER_S = 1.0
"""The longest wait for the topics of a cluster: a search is typed, and other clusters have answers."""

NamesOf = Callable[[Cluster], Awaitable[Sequence[str]]]
"""Returns the topics of a cluster. Raises a FencelineError if they cannot be listed."""


class FoundKind(StrEnum):
    """In the order of the results. The values are the labels."""

    PIPELINE = "pipeline"
    CLUSTER = "cluster"
    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    RUN = "run"
    FENCING_EVENT = "fencing event"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """cluster: of a topic, group or transactional id. pipeline: of a run; its name is its id."""

    kind: FoundKind
    name: str
    cluster: str = ""
    pipeline: str = ""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """items: by kind, at most MOST_OF_A_KIND of each, the best first. left_out: how many more there are.

    unlisted: the clusters that did not list their topics in time.
    """

    items: tuple[Found, ...] = ()
    left_out: int = 0
    unlisted: tuple[str, ...] = ()


async def search(
    uow: UnitOfWork, snapshots: Iterable[Snapshot], text: str, *, names_of: NamesOf | None = None
) -> SearchResult:
    """Return everything with `text` in its name, in any case; an exact name first, then names that begin with it.

    Groups and ids are those of pipelines and of the observed journals. Topics are those, too, and `names_of` lists
    the others of each cluster.
    """
    wanted = text.strip().lower()
    if not wanted:
        return SearchResult()
    pipelines = (await uow.of(PipelineStore).list(after=None, limit=_PIPELINES)).items
    clusters = await uow.of(ClusterStore).list_all()
    named = [
        [Found(kind=FoundKind.PIPELINE, name=one.name) for one in pipelines],
        [Found(kind=FoundKind.CLUSTER, name=one.name) for one in clusters],
    ]
    topics = {
        (one.cluster, topic)
        for one in pipelines
        for topic in (*one.definition.source_topics, one.definition.sink_topic)
        if topic
    }
    listed = {} if names_of is None else await _listed(clusters, names_of)
    found = [_best(some, wanted) for some in named]
    # Off the event loop: a cluster may have 50,000 ids.
    found += await asyncio.to_thread(_of_clusters, list(snapshots), topics, listed, wanted)
    found += [(await _by_id(uow, text.strip()), 0)]
    return SearchResult(
        items=tuple(one for best, _ in found for one in best),
        left_out=sum(left_out for _, left_out in found),
        unlisted=tuple(sorted(cluster for cluster, names in listed.items() if names is None)),
    )


async def _listed(clusters: Sequence[Cluster], names_of: NamesOf) -> dict[str, Sequence[str] | None]:
    """Return the topics by cluster; None: no answer in time."""

    async def ask(cluster: Cluster) -> Sequence[str] | None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await names_of(cluster)
        except (FencelineError, TimeoutError):
            return None

    return dict(zip((one.name for one in clusters), await asyncio.gather(*map(ask, clusters)), strict=True))


def _of_clusters(
    snapshots: Sequence[Snapshot],
    of_pipelines: set[tuple[str, str]],
    listed: Mapping[str, Sequence[str] | None],
    wanted: str,
) -> list[tuple[list[Found], int]]:
    topics = {(cluster, name) for cluster, names in listed.items() for name in names or () if wanted in name.lower()}
    # Journals may name topics that brokers hide from this client.
    topics |= _topics(snapshots, of_pipelines)
    groups = ((one.cluster, name) for one in snapshots for name in one.groups)
    ids = ((one.cluster, name) for one in snapshots for name in one.transactional_ids)
    of_kinds = {
        FoundKind.TOPIC: topics,
        FoundKind.GROUP: groups,
        FoundKind.TRANSACTIONAL_ID: ids,
    }
    # Only matching names become objects: with 50,000 ids the others cost most of the time.
    return [
        _best(
            (Found(kind=kind, name=name, cluster=cluster) for cluster, name in names if wanted in name.lower()), wanted
        )
        for kind, names in of_kinds.items()
    ]


def _topics(snapshots: Sequence[Snapshot], known: set[tuple[str, str]]) -> set[tuple[str, str]]:
    topics = set(known)
    for one in snapshots:
        topics |= {(one.cluster, topic) for group in one.groups.values() for topic, _ in group.offsets}
        topics |= {
            (one.cluster, part.topic)
            for live in one.open_transactions.values()
            for part in live.state.partitions or ()
            if part.topic != GROUPS
        }
    return topics


def _best(some: Iterable[Found], wanted: str) -> tuple[list[Found], int]:
    matching = [one for one in some if wanted in one.name.lower()]
    best = heapq.nsmallest(
        MOST_OF_A_KIND,
        matching,
        key=lambda one: (one.name.lower() != wanted, not one.name.lower().startswith(wanted), one.name),
    )
    return best, len(matching) - len(best)


async def _by_id(uow: UnitOfWork, text: str) -> list[Found]:
    try:
        name = str(uuid.UUID(text))
    except ValueError:
        return []
    with suppress(NotFoundError):
        run = await uow.of(RunStore).get(name)
        return [Found(kind=FoundKind.RUN, name=run.id, pipeline=run.pipeline)]
    with suppress(NotFoundError):
        line = await fencing_feed.get_line(uow, name)
        return [Found(kind=FoundKind.FENCING_EVENT, name=line.record.id)]
    return []
