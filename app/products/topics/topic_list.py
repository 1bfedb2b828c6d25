"""A page of a cluster's topics, and the settings of a topic that endanger exactly-once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec

from app.core.clusters.cluster_checks import durability, too_few_replicas, unclean_election
from app.core.clusters.topic import ListedTopic, TopicDescription
from app.kit.page import checked_limit, decode_cursor, encode_cursor
from app.kit.words import count


class TopicSort(StrEnum):
    """PARTITIONS: most partitions first."""

    NAME = "name"
    PARTITIONS = "partitions"


class TopicQuery(msgspec.Struct, frozen=True, kw_only=True):
    """search: a part of the name; case is ignored. with_internal: topics of the brokers themselves, too."""

    search: str = ""
    with_internal: bool = False
    sort: TopicSort = TopicSort.NAME


class SelectedTopics(NamedTuple):
    items: tuple[ListedTopic, ...]
    next_cursor: str | None
    matching: int
    internal: int


def select(topics: Iterable[ListedTopic], query: TopicQuery, *, after: str | None, limit: int) -> SelectedTopics:
    """Return one page, with the numbers of all matching and of hidden internal topics. Raises InvalidError.

    topics: by name.
    """
    checked_limit(limit)
    search = query.search.casefold()
    found = [one for one in topics if search in one.name.casefold()]
    internal = sum(one.is_internal for one in found)
    if not query.with_internal:
        found = [one for one in found if not one.is_internal]
    if query.sort is not TopicSort.NAME:
        found.sort(key=lambda one: _key(one, query.sort))
    rest = found
    if after is not None:
        number, name = decode_cursor(after, keys=2)
        start = (int(number) if number.removeprefix("-").isdecimal() and len(number) < 12 else 0, name)
        rest = [one for one in found if _key(one, query.sort) > start]
    page = tuple(rest[:limit])
    cursor = None
    if len(rest) > limit:
        number, name = _key(page[-1], query.sort)
        cursor = encode_cursor(str(number), name)
    return SelectedTopics(page, cursor, len(found), 0 if query.with_internal else internal)


def _key(topic: ListedTopic, sort: TopicSort) -> tuple[int, str]:
    return (-topic.partitions if sort is TopicSort.PARTITIONS else 0, topic.name)


def advice_of(topic: TopicDescription, *, writers: Collection[str]) -> tuple[str, ...]:
    """Return why this topic endangers exactly-once, a sentence each; names in backticks.

    writers: the pipelines that write to it.
    """
    return tuple(f"{sentence}." for sentence in _advice(topic, writers))


def _advice(topic: TopicDescription, writers: Collection[str]) -> Iterator[str]:
    name, facts = topic.name, topic.facts
    leaderless = [one.number for one in topic.partitions if one.leader is None]
    if leaderless:
        yield (
            f"{count(len(leaderless), 'partition')} of `{name}` without a leader (first: {leaderless[0]}): "
            "transactions that write there cannot commit, and readers wait"
        )
    least = facts.min_insync_replicas
    if (message := too_few_replicas(name, facts)) is not None:
        yield message
    elif least is not None:
        few = [one.number for one in topic.partitions if one.leader is not None and len(one.in_sync) < least]
        if few:
            yield (
                f"{count(len(few), 'partition')} of `{name}` with fewer in-sync replicas than min.insync.replicas="
                f"{least} (first: {few[0]}): writes are refused, so transactions there cannot commit"
            )
    if (message := unclean_election(name, facts)) is not None:
        yield f"{message}. Markers of transactions are lost in the same way"
    if (message := durability(name, facts)) is not None:
        yield message
    if facts.compacts and writers:
        yield (
            f"`{name}` is compacted (cleanup.policy), and {_named(writers)} to it. Older records of a key are removed "
            "after their commit, so audits and later readers find fewer records than were committed. Records without "
            "a key are refused. Set cleanup.policy=delete unless readers need only the newest record of a key"
        )


def _named(writers: Collection[str]) -> str:
    names = sorted(writers)
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(f'`{one}`' for one in names[:2])}{more} {'writes' if len(names) == 1 else 'write'}"
