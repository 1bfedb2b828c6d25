"""One Spark schema for files with different Avro schemas, and rows of it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from app.products.files.reader.spark.types import merged_schema, row_of


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": type_} for name, type_ in fields.items()]}


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in fields.items()])


NESTED = {"type": "record", "name": "n", "fields": [{"name": "x", "type": "long"}]}
OTHER = {"type": "record", "name": "n", "fields": [{"name": "y", "type": "null"}]}
MAP = {"type": "map", "values": "double"}
ARRAY = {"type": "array", "items": ["null", "long"]}


def test_one_schema_is_itself_in_the_order_of_names() -> None:
    schema = record(id="long", carrier=["null", "string"], late="boolean", nested=NESTED, legs=ARRAY, by_day=MAP)
    assert merged_schema([schema]) == struct(
        by_day=MapType(StringType(), DoubleType()),
        carrier=StringType(),
        id=LongType(),
        late=BooleanType(),
        legs=ArrayType(LongType()),
        nested=struct(x=LongType()),
    )


@pytest.mark.parametrize(
    ("types", "merged"),
    [
        (("long", "double"), DoubleType()),
        (("null", "long"), LongType()),
        (("null",), StringType()),
        (("long", "string"), StringType()),
        (("boolean", NESTED), StringType()),
        ((["long", "double"], "long"), StringType()),
        ((ARRAY, {"type": "array", "items": "double"}), ArrayType(DoubleType())),
        ((NESTED, OTHER), struct(x=LongType(), y=StringType())),
        ((NESTED, MAP), MapType(StringType(), DoubleType())),
        ((NESTED, MAP, {"type": "map", "values": "string"}), MapType(StringType(), StringType())),
        (({"type": "long", "logicalType": "timestamp-millis"}, "long"), LongType()),
    ],
)  # fmt: skip
def test_schemas_are_merged_whatever_their_order(types: tuple[Any, ...], merged: DataType) -> None:
    for order in permutations([record(), *(record(a=type_) for type_ in types)]):
        assert merged_schema(order) == struct(a=merged)


def test_names_are_those_of_json_and_named_types_are_found_again() -> None:
    fields = [
        {"name": "_xtail_20_number", "json": "tail number", "type": NESTED},
        {"name": "again", "type": {"type": "array", "items": "n"}},
    ]
    assert merged_schema([{"type": "record", "name": "r", "fields": fields}]) == StructType(
        [StructField("again", ArrayType(struct(x=LongType()))), StructField("tail number", struct(x=LongType()))]
    )


def test_rows_have_what_records_have() -> None:
    schema = merged_schema(
        [record(id="long", nested=NESTED, legs=ARRAY, by_day=MAP), record(id="double", more="string")]
    )
    row = row_of(schema)
    assert schema.fieldNames() == ["by_day", "id", "legs", "more", "nested"]
    assert row({"id": 1, "nested": {"x": 2}, "legs": [1, None], "by_day": {"a": 1}}) == (
        {"a": 1.0},
        1.0,
        [1, None],
        None,
        (2,),
    )
    assert row({"id": 2.5, "more": "m"}) == (None, 2.5, None, "m", None)


def test_what_has_nothing_in_common_is_text() -> None:
    row = row_of(merged_schema([record(a="long"), record(a="string"), record(a=NESTED)]))
    found = [row({"a": value}) for value in (1, "one", {"x": 1}, None)]
    assert found == [("1",), ("one",), ('{"x":1}',), (None,)]


def test_an_integer_that_no_double_holds_is_an_error_and_not_another_number() -> None:
    row = row_of(merged_schema([record(a="long"), record(a="double")]))
    assert row({"a": 1 << 53}) == (float(1 << 53),)
    assert row({"a": 1 << 60}) == (float(1 << 60),)
    with pytest.raises(OverflowError, match="9007199254740993 has no exact double"):
        row({"a": (1 << 53) + 1})


def test_records_with_too_many_names_are_one_map() -> None:
    entries = {"type": "record", "name": "r", "fields": [{"name": "_x_entries", "type": MAP, "json": None}]}
    schema = merged_schema([entries])
    assert schema["record"].dataType == MapType(StringType(), DoubleType())
    # Spark hands schemas on as JSON.
    assert row_of(StructType.fromJson(schema.jsonValue()))({"a": 1}) == ({"a": 1.0},)
    assert merged_schema([entries, record(a="long")]) == schema
    like_it = merged_schema([record(record=MAP)])
    assert row_of(like_it)({"record": {"a": 1}}) == ({"a": 1.0},)
