"""Reading ids of an application that moves to Fenceline: formulas, CSV, and problems."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.core.ids.formulas import FORMULAS
from app.core.ids.imported import ImportFacts, ImportLine, ImportPlan, ImportWish, lines_of, plan_of
from app.core.mappings.mapping import IdKind, TransactionalIdOwner
from app.kit.errors import InvalidError

PARTITIONS: dict[str, int | None] = {"in": 3, "other": 1}
FACTS = ImportFacts(
    pipeline="flights", group="g", partitions=PARTITIONS, assigned={}, owners={}, of_tasks={}, in_use={}
)
STREAMS = {"application_id": "app", "subtopology": "0"}


def lines(csv: str = "", **wish: Any) -> list[ImportLine]:
    return lines_of(ImportWish(csv=csv, **wish), group="g", partitions=PARTITIONS)


def plan(csv: str = "", *, facts: dict[str, Any] | None = None, **wish: Any) -> ImportPlan:
    return plan_of(lines(csv, **wish), msgspec.structs.replace(FACTS, **(facts or {})))


def problems(csv: str = "", *, facts: dict[str, Any] | None = None, **wish: Any) -> list[tuple[str, str]]:
    return [(one.field, one.message) for one in plan(csv, facts=facts, **wish).problems]


def owner(name: str, pipeline: str = "flights", kind: IdKind = IdKind.IMPORTED) -> dict[str, TransactionalIdOwner]:
    return {name: TransactionalIdOwner(kafka_cluster_id="k", transactional_id=name, pipeline=pipeline, kind=kind)}


@pytest.mark.parametrize(
    ("formula", "values", "first", "last"),
    [
        ("kafka-streams", STREAMS, "app-0_0", "app-0_0"),
        ("spring-kafka", {"prefix": "tx-", "group": "listeners"}, "tx-listeners.in.0", "tx-listeners.other.0"),
        ("spring-kafka", {"prefix": "tx-"}, "tx-g.in.0", "tx-g.other.0"),
    ],
)
def test_formula_makes_an_id_for_each_partition(formula: str, values: dict[str, str], first: str, last: str) -> None:
    made = lines(formula=formula, values=values)
    assert [(one.topic, one.partition) for one in made] == [("in", 0), ("in", 1), ("in", 2), ("other", 0)]
    assert (made[0].transactional_id, made[-1].transactional_id) == (first, last)


@pytest.mark.parametrize(
    ("formula", "values", "made"),
    [
        ("kafka-streams-v2", {"application_id": "app", "process_id": "9b"}, ["app-9b-1", "app-9b-2"]),
        ("spring-kafka-v2", {"prefix": "tx-"}, ["tx-0", "tx-1"]),
    ],
)
def test_formula_that_counts_makes_ids_of_no_partition(formula: str, values: dict[str, str], made: list[str]) -> None:
    found = lines(formula=formula, values=values, count=2)
    assert [one.transactional_id for one in found] == made
    assert {(one.topic, one.partition) for one in found} == {(None, None)}


def test_value_with_braces_is_no_place_in_a_formula() -> None:
    formula = FORMULAS["spring-kafka"]
    assert formula.id_of({"prefix": "{partition}", "group": "g"}, topic="t", partition=7) == "{partition}g.t.7"


@pytest.mark.parametrize(
    ("wish", "field", "says"),
    [
        ({}, "csv", "give a CSV, a formula, or both"),
        ({"formula": "flink"}, "formula", "there is no formula flink; there are: kafka-streams,"),
        ({"formula": "kafka-streams", "values": {"application_id": "a"}}, "values.subtopology", "needs subtopology"),
        ({"formula": "kafka-streams", "values": {**STREAMS, "x": "y"}}, "values.x", "knows no x"),
        ({"formula": "spring-kafka-v2", "values": {"prefix": "p"}}, "count", "enter how many"),
        (
            {"csv": "in,0,", "formula": "spring-kafka-v2", "values": {"prefix": "p"}, "count": 1},
            "formula",
            "omit the CSV",
        ),
        ({"csv": "topic,partition,transactional_id\n"}, "csv", "no lines after its header"),
        ({"csv": 'in,0,"a'}, "csv", "line 1 is not CSV"),
    ],
    ids=str,
)
def test_wish_without_lines_is_refused_at_its_field(wish: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(InvalidError, match=says) as refused:
        lines(**wish)
    assert refused.value.problems[0].field == field


def test_formula_needs_the_brokers_or_a_csv() -> None:
    with pytest.raises(InvalidError, match="the number of partitions of in is not known now"):
        lines_of(ImportWish(formula="kafka-streams", values=STREAMS), group="g", partitions={"in": None})


def test_csv_is_read_with_and_without_its_head() -> None:
    plain = 'in,0,app-0_0\n\n in , 1 ,"id, with a comma"\n,,alone\n'
    assert [(one.number, one.topic, one.partition, one.transactional_id) for one in lines(plain)] == [
        (1, "in", 0, "app-0_0"),
        (3, "in", 1, "id, with a comma"),
        (4, None, None, "alone"),
    ]
    headed = "\ufeffTransactional_id,Topic,Partition\r\napp-0_0,in,0\r\n"
    (line,) = lines(headed)
    assert (line.number, line.topic, line.partition, line.transactional_id) == (2, "in", 0, "app-0_0")


def test_formula_completes_the_lines_that_have_no_id() -> None:
    found = lines("in,0\nin,1,mine\n", formula="kafka-streams", values=STREAMS)
    assert [one.transactional_id for one in found] == ["app-0_0", "mine"]


@pytest.mark.parametrize(
    ("csv", "line", "says"),
    [
        ("in,0,a,b", 1, "It has 4 columns, and there are 3"),
        ("in,x,a", 1, "`x` is not a partition"),
        ("in,-1,a", 1, "`-1` is not a partition"),
        ("in,4294967296,a", 1, "is not a partition"),
        ("in,,a", 1, "A partition has a topic and a number"),
        (",1,a", 1, "A partition has a topic and a number"),
        ("in,0,", 1, "It has no transactional id, and there is no formula"),
        ("in,0,a\nin,0,b", 2, "in-0 occurs more than once"),
        (",,a\n,,a", 2, "`a` occurs more than once"),
        ("nowhere,0,a", 1, "does not read nowhere; it reads in, other"),
        ("in,3,a", 1, "in has 3 partitions, so 3 does not exist"),
        ("in,0,a\x00", 1, "no character that cannot be stored"),
    ],
)
def test_each_problem_has_its_line(csv: str, line: int, says: str) -> None:
    assert any(field == f"lines.{line}" and says in message for field, message in problems(csv)), problems(csv)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (
            {"owners": owner("a", "other")},
            "belongs to the pipeline other: two producers with it would fence",
        ),
        ({"owners": owner("a", kind=IdKind.TASK)}, "is already the id of a task of this pipeline"),
        ({"of_tasks": {"a": "other"}}, "would be used by a task of the pipeline other"),
        ({"of_tasks": {"a": "flights"}}, "would be used by a task of the pipeline flights"),
        ({"assigned": {("in", 0): "b"}}, "in-0 is assigned `b` already; an import replaces nothing"),
    ],
    ids=str,
)
def test_import_takes_no_id_from_another_owner_and_replaces_none(facts: dict[str, Any], says: str) -> None:
    ((field, message),) = problems("in,0,a", facts=facts)
    assert field == "lines.1"
    assert says in message


def test_earlier_import_is_no_problem() -> None:
    facts = {"owners": owner("a"), "assigned": {("in", 0): "a"}}
    known, new = plan("in,0,a\nin,1,a", facts=facts).lines
    assert (known.is_known, known.problems) == (True, ())
    assert (new.is_known, new.problems) == (False, ())


def test_id_of_several_partitions_is_a_warning_as_their_producers_would_fence_each_other() -> None:
    (warning,) = plan("in,0,a\nin,1,a\nin,2,b").warnings
    assert warning.startswith("`a` is the id of several partitions. In exactly_once each partition has a producer")
    assert plan("in,0,a\nin,1,b").warnings == ()


def test_id_that_is_in_use_is_a_warning() -> None:
    (line,) = plan("in,0,a", facts={"in_use": {"a": "It has a transaction open"}}).lines
    assert (line.warnings, line.problems) == (("It has a transaction open",), ())


def test_unknown_numbers_of_partitions_are_reported() -> None:
    facts = {"partitions": {"in": None, "other": 1}}
    found = plan("in,99,a", facts=facts)
    assert found.problems == []
    assert "not checked" in found.warnings[0]
