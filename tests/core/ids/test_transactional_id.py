"""Names of transactional ids: unique for each owner, and in the broker's journal partition."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.core.ids.transactional_id import (
    escape,
    for_partition,
    for_task,
    form_for_tasks,
    form_for_topic,
    transaction_log_partition,
)

parts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
# Parts that collide easily when a separator is not escaped.
tricky_parts = st.text(st.sampled_from("a.%_-2Et0"), min_size=1, max_size=5) | parts
numbers = st.integers(0, 12)


@given(tricky_parts, tricky_parts)
@example("a.b", "a%2Eb")
@example("%", "%25")
def test_escape_keeps_different_parts_different(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@given(tricky_parts)
def test_an_escaped_part_has_no_separator_and_nothing_that_kafka_tools_would_quote(part: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_%-]+", escape(part))


@given(st.tuples(tricky_parts, tricky_parts, numbers, numbers), st.tuples(tricky_parts, tricky_parts, numbers, numbers))
@example(("fl", "a.0", 1, 2), ("fl", "a", 0, 12))
@example(("fl.t", "a", 1, 2), ("fl", "t.a", 1, 2))
def test_two_tasks_have_one_id_only_if_they_are_the_same_task(
    one: tuple[str, str, int, int], other: tuple[str, str, int, int]
) -> None:
    def name(task: tuple[str, str, int, int]) -> str:
        prefix, pipeline, instance, number = task
        return for_task(prefix=prefix, pipeline=pipeline, instance=instance, task=number)

    assert (name(one) == name(other)) == (one == other)


@given(
    st.tuples(tricky_parts, tricky_parts, tricky_parts, numbers),
    st.tuples(tricky_parts, tricky_parts, tricky_parts, numbers),
)
@example(("fl", "a", "b.c", 0), ("fl", "a.b", "c", 0))
def test_two_partitions_have_one_id_only_if_they_are_the_same_partition(
    one: tuple[str, str, str, int], other: tuple[str, str, str, int]
) -> None:
    def name(partition: tuple[str, str, str, int]) -> str:
        prefix, group, topic, number = partition
        return for_partition(prefix=prefix, group=group, topic=topic, partition=number)

    assert (name(one) == name(other)) == (one == other)


@given(tricky_parts, tricky_parts, numbers, numbers, tricky_parts, tricky_parts, tricky_parts, numbers)
def test_the_id_of_a_task_is_never_the_id_of_a_partition(
    prefix: str, pipeline: str, instance: int, task: int, other_prefix: str, group: str, topic: str, partition: int
) -> None:
    assert for_task(prefix=prefix, pipeline=pipeline, instance=instance, task=task) != for_partition(
        prefix=other_prefix, group=group, topic=topic, partition=partition
    )


def test_ids_read_as_the_documentation_writes_them() -> None:
    assert for_task(prefix="fl", pipeline="delayed-flights", instance=0, task=1) == "fl.t.delayed-flights.0.1"
    assert for_partition(prefix="fl", group="g.1", topic="a.b", partition=3) == "fl.p.g%2E1.a%2Eb.3"


def test_the_form_of_ids_is_an_id_with_its_numbers_left_out() -> None:
    tasks = form_for_tasks(prefix="a.b", pipeline="flights")
    assert tasks.replace("<instance>", "0").replace("<task>", "1") == for_task(
        prefix="a.b", pipeline="flights", instance=0, task=1
    )
    topic = form_for_topic(prefix="a.b", group="g ü", topic="x.y")
    assert topic.replace("<partition>", "3") == for_partition(prefix="a.b", group="g ü", topic="x.y", partition=3)


# Java's own answers for String.hashCode; "polygenelubricants" is the well-known text whose hash is Integer.MIN_VALUE.
JAVA_HASHES = {
    "": 0,
    "a": 97,
    "Aa": 2112,
    "BB": 2112,
    "hello": 99162322,
    "Hello, World!": 1498789909,
    "polygenelubricants": -2147483648,
    "ü": 252,
    "😀": 1772899,
}


@pytest.mark.parametrize("text", sorted(JAVA_HASHES))
@pytest.mark.parametrize("partitions", [1, 7, 50, 1 << 31])
def test_the_journal_partition_is_javas_hash_made_positive_as_kafka_does_it(text: str, partitions: int) -> None:
    java = JAVA_HASHES[text]
    positive = 0 if java == -(1 << 31) else abs(java)
    assert transaction_log_partition(text, partitions) == positive % partitions


@given(st.text(max_size=30), st.integers(1, 200))
def test_the_journal_partition_exists(transactional_id: str, partitions: int) -> None:
    assert 0 <= transaction_log_partition(transactional_id, partitions) < partitions
