"""Makes plans of definitions in a Spark session of its own, without Kafka: one order a line, one answer a line.

An order is an encoded PipelineDefinition with the text of its file. The answer has the columns of the result, or the
field and the message of a PlanError. `python planner.py`.
"""

import json
import sys

import msgspec
from pyspark.sql import SparkSession

from app.core.pipelines.pipeline import PipelineDefinition
from workers.spark.query_plan import PlanError, plan

SOURCE = (
    "CAST(NULL AS BINARY) AS key",
    "CAST('{}' AS BINARY) AS value",
    "'t' AS topic",
    "0 AS partition",
    "value AS offset",
    "timestamp",
)


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    rows = spark.readStream.format("rate").load().selectExpr(*SOURCE)
    for line in sys.stdin:
        order = json.loads(line)
        definition = msgspec.convert(order["definition"], PipelineDefinition)
        try:
            result = plan(definition, spark, lambda _: rows, transform_source=order["source"])
            answer = dict(result.dtypes)
        except PlanError as error:
            answer = {"field": error.field, "message": error.message}
        print("ANSWER", json.dumps(answer), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
