"""The definition of a comparison: what is refused, its texts, and the order that carries it out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.core.allow_lists.options import AllowedOptions
from app.core.pipelines.pipeline import FileSink, Identity, SetField, SparkSettings, Steps
from app.core.wire import protocol
from app.kit.moments import WordsError
from app.products.audits import wire
from app.products.audits.audit import AuditState
from app.products.audits.comparison import (
    Baseline,
    Comparison,
    FileFormat,
    FilesBaseline,
    Recomputation,
    TableBaseline,
    TopicBaseline,
    baseline_words,
    comparison_problems,
    driver_of,
)
from app.products.audits.comparison_form import OF_PROBLEMS, texts_of, typed
from app.products.audits.result import AuditVerdict, FindingTally, verdict
from app.products.audits.specification import AuditSpecification, Everything, JsonField, specification_of
from app.products.audits.submission import of_audit
from app.products.audits.telling import audit_sentence
from app.products.audits.words import baseline_of, baseline_text
from tests.support.audit_samples import COMPARED, audit, compared_result, plan, result
from tests.support.definitions import a_definition

URL = "jdbc:postgresql://db.example/old"
ALLOWED = AllowedOptions(jdbc_urls=frozenset({URL}), baseline_roots=frozenset({"s3://old/*", "file:///old"}))
TABLE = TableBaseline(url=URL, table="public.payments", user="env:FENCELINE_SECRET_USER", password="file:old-password")
FILES = FilesBaseline(format=FileFormat.PARQUET, location="s3://old/hourly")
TOPIC = TopicBaseline(topic="old")


def problems(
    baseline: Baseline = TOPIC, *, file_root: str | None = None, allowed: AllowedOptions = ALLOWED, **rules: Any
) -> list[str | None]:
    comparison = Comparison(baseline=baseline, **rules)
    found = comparison_problems(comparison, output_topics=("out", "aside"), file_root=file_root, allowed=allowed)
    return [one.field for one in found]


@pytest.mark.parametrize("baseline", [TABLE, FILES, TOPIC])
def test_usual_comparison_has_no_problem(baseline: Baseline) -> None:
    assert problems(baseline, baseline_time_field="at", fields=("a.b",), tolerance=0.01, output_topic="aside") == []


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({"baseline": TopicBaseline(topic="out")}, "baseline.topic"),
        ({"baseline": FILES}, "baseline_time_field"),
        ({"baseline": TABLE}, "baseline_time_field"),
        ({"output_topic": "unknown"}, "output_topic"),
        ({"output_topic": "aside", "file_root": "s3://new"}, "output_topic"),
        ({"fields": ("a.",)}, "fields"),
        ({"ignored_fields": ("",)}, "ignored_fields"),
        ({"fields": ("a",) * 201}, "fields"),
        ({"time_field": "."}, "time_field"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"tolerance": float("nan")}, "tolerance"),
    ],
)
def test_problem_is_at_its_field(rules: dict[str, Any], field: str) -> None:
    assert set(problems(**rules)) == {f"comparison.{field}"}
    assert any(f"comparison.{field}".startswith(known) for known in OF_PROBLEMS), "the form has a place for it"


@pytest.mark.parametrize("location", ["file:///etc", "s3://other/old", "/old", "hdfs://old", "file:///old/../etc"])
def test_location_beyond_the_allowed_roots_is_refused(location: str) -> None:
    files = FilesBaseline(format=FileFormat.CSV, location=location)
    assert problems(files, baseline_time_field="at") == ["comparison.baseline.location"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"url": "jdbc:postgresql://elsewhere/old"}, "url"),
        ({"url": f"{URL}?socketFactory=evil.Factory"}, "url"),
        ({"table": "(select * from secrets) as t"}, "table"),
        ({"table": "a;drop table b"}, "table"),
        ({"user": "postgres"}, "user"),
        ({"password": "hunter2"}, "password"),
        ({"password": "file:../token"}, "password"),
        ({"table": '(select 1) as "t"'}, "table"),
        ({"table": 'a"; drop table b; --"'}, "table"),
        ({"table": '"a\\"."; drop table b"'}, "table"),
        ({"table": "a, secrets"}, "table"),
        ({"table": "a b"}, "table"),
        ({"table": "server.db.schema.table"}, "table"),
        ({"table": "pg_read_file('/etc/passwd')"}, "table"),
        ({"table": "a\n"}, "table"),
        ({"driver": "my.Driver"}, "driver"),
        ({"driver": "org.h2.Driver"}, "driver"),
        ({"driver": "com.mysql.cj.jdbc.Driver"}, "driver"),
    ],
)
def test_table_is_refused_where_it_could_read_something_else(changes: dict[str, Any], field: str) -> None:
    table = msgspec.structs.replace(TABLE, **changes)
    assert problems(table, baseline_time_field="at") == [f"comparison.baseline.{field}"]


@pytest.mark.parametrize(
    "table", ["payments", "Old.public.Payments", 'public."Old Payments"', "`old-payments`", "[dbo].[Überträge]"]
)
def test_quoted_name_of_a_table_is_allowed(table: str) -> None:
    assert problems(msgspec.structs.replace(TABLE, table=table), baseline_time_field="at") == []


@pytest.mark.parametrize("root", ["s3://old/hourly", "s3://old/hourly/new", "s3://old"])
def test_own_files_are_no_baseline(root: str) -> None:
    assert problems(FILES, baseline_time_field="at", file_root=root) == ["comparison.baseline.location"]
    assert problems(FILES, baseline_time_field="at", file_root="s3://old/hourly-new") == []


def test_no_folder_is_allowed_without_a_setting() -> None:
    roots = AllowedOptions(file_roots=frozenset({"*"}))
    assert problems(FILES, baseline_time_field="at", allowed=roots) == ["comparison.baseline.location"]


def test_no_database_is_allowed_without_a_setting() -> None:
    assert problems(TABLE, baseline_time_field="at", allowed=AllowedOptions()) == ["comparison.baseline.url"]


@pytest.mark.parametrize(
    "url",
    [
        f"{URL}?user=a&password=b",
        "jdbc:sqlserver://db;PWD=b",
        "jdbc:sqlserver://db;accessToken=b",
        "jdbc:mysql://a:b@db/old",
        "jdbc:oracle:thin:a/b@//db:1521/old",
    ],
)
def test_password_in_an_allowed_url_is_refused(url: str) -> None:
    allowed = AllowedOptions(jdbc_urls=frozenset({url}))
    found = problems(msgspec.structs.replace(TABLE, url=url), baseline_time_field="at", allowed=allowed)
    assert found == ["comparison.baseline.url"]


def test_driver_is_known_for_usual_products() -> None:
    assert driver_of(TABLE) == "org.postgresql.Driver"
    assert driver_of(msgspec.structs.replace(TABLE, driver="my.Driver")) == "my.Driver"
    odd = msgspec.structs.replace(TABLE, url="jdbc:odd:old")
    allowed = AllowedOptions(jdbc_urls=frozenset({odd.url}), jdbc_drivers=frozenset({"my.Driver"}))
    named = msgspec.structs.replace(odd, driver="my.Driver")
    assert problems(named, baseline_time_field="at", allowed=allowed) == []
    assert problems(odd, baseline_time_field="at", allowed=allowed) == ["comparison.baseline.driver"]


@pytest.mark.parametrize("baseline", [TOPIC, FILES, TABLE, Recomputation()])
def test_baseline_is_read_from_its_text(baseline: Baseline) -> None:
    of_table = {name: getattr(TABLE, name) for name in ("url", "user", "password", "driver")}
    assert baseline_of(baseline_text(baseline), **of_table) == baseline


@pytest.mark.parametrize("text", ["", "old", "topic:", "orc:file:///old", "table:old", "recomputation:a"])
def test_text_that_is_no_baseline_is_refused(text: str) -> None:
    with pytest.raises(WordsError):
        baseline_of(text)


@pytest.mark.parametrize("baseline", [TOPIC, FILES, TABLE])
def test_form_begins_with_the_plan(baseline: Baseline) -> None:
    comparison = Comparison(
        baseline=baseline, baseline_time_field="at", fields=("a.b", "c"), ignored_fields=("d",), tolerance=0.5
    )
    kept = plan(comparison=comparison, source_id_place=JsonField(path="id"))
    found = typed(texts_of(kept))
    assert (found.comparison, found.id_place, found.source_id_place) == (
        comparison,
        kept.id_place,
        kept.source_id_place,
    )
    assert (found.every_s, found.padding_s, found.tolerance_s) == (kept.every_s, kept.padding_s, kept.tolerance_s)


def specification(comparison: Comparison, **changes: Any) -> AuditSpecification:
    definition = a_definition(transform=Steps(steps=(SetField(field="a", value=1),)), **changes)
    return specification_of(
        definition,
        audit_id="an audit",
        pipeline="pipeline",
        revision=1,
        window=Everything(),
        id=JsonField(path="id"),
        comparison=comparison,
    )


def test_order_reads_both_sides_and_applies_no_transform() -> None:
    found = specification(COMPARED)
    assert (found.source_topics, found.sink_topics) == (("old-payments",), (found.sink_topic,))
    assert (found.group_id, found.transform) == (None, Identity())
    assert specification(Comparison(baseline=FILES)).source_topics == ()
    assert specification(msgspec.structs.replace(COMPARED, output_topic="aside")).sink_topics == ("aside",)
    assert specification(COMPARED, files=FileSink(root="file:///files")).file_roots == ("file:///files",)


def test_release_before_refuses_the_order() -> None:
    """It would take a comparison for an audit."""
    order = wire.AuditOrder(fenceline_version="1", specification=specification(COMPARED), client_config={})
    data = wire.encode(order)
    assert msgspec.json.decode(data)["protocol_version"] == protocol.COMPARISONS
    assert wire.decode(data).specification.comparison == COMPARED


def test_jars_of_drivers_are_for_tables_alone() -> None:
    def jars(baseline: Baseline, conf: dict[str, str]) -> str | None:
        made = specification(Comparison(baseline=baseline), spark=SparkSettings(master="local[1]", conf=conf))
        submission = of_audit(made, python="p", driver_python="p", local_dir="/l", jdbc_driver_jars=("/pg.jar",))
        return submission.conf.get("spark.jars")

    assert jars(TABLE, {}) == "/pg.jar"
    assert jars(TABLE, {"spark.jars": "/own.jar"}) == "/own.jar,/pg.jar"
    assert jars(TOPIC, {}) is None


def test_password_is_in_no_text() -> None:
    assert "old-password" not in baseline_words(TABLE)
    assert "old-password" not in repr(
        of_audit(specification(Comparison(baseline=TABLE)), python="p", driver_python="p", local_dir="/l")
    )


def test_sentences_name_both_sides() -> None:
    broken = audit(AuditState.DONE, comparison=COMPARED, result=compared_result())
    assert audit_sentence(broken) == (
        "1 output lost and 1 output different: 10 records in the topic old-payments, 8 in the output. Not all could be "
        "compared, so there may be more: 1 record repeated in the topic old-payments, or lost in the output."
    )
    empty = result(counts=msgspec.structs.replace(result().counts, inputs=0, outputs=0), baseline="the table old")
    assert audit_sentence(audit(AuditState.DONE, result=empty)) == (
        "Neither the table old nor the output has a record in the window."
    )
    repeated = msgspec.structs.replace(result().counts, duplicated_in_baseline=FindingTally(ids=1, records=2))
    unclear = result(counts=repeated, baseline="the table old")
    assert verdict(unclear) is AuditVerdict.NOT_SHOWN
    assert audit_sentence(audit(AuditState.DONE, result=unclear)).startswith(
        "Not shown: 2 records repeated in the table old, or lost in the output. No violation in the records read: "
    )
    unread = result(counts=msgspec.structs.replace(result().counts, unreadable_input=2), baseline="the table old")
    assert audit_sentence(audit(AuditState.DONE, result=unread)).startswith(
        "Not shown: 2 records of the table old without an id, a time or fields. No violation in the records read: "
    )
