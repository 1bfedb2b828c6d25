"""Makes plans of definitions in a Spark session of its own, without Kafka: one order a line, one answer a line.

An order is an encoded PipelineDefinition with the text of its file. The answer has the columns of the result, or the
field and the message of a PlanError. With `recomputed` it has the rules of a recomputation, or the message of its
refusal. `python planner.py`.
"""

import json
import sys

import msgspec
from pyspark.sql import SparkSession

from app.core.pipelines.pipeline import PipelineDefinition
from workers.comparison.recomputable import NotRecomputableError, recomputable
from workers.spark.query_plan import PlanError, empty_source, nodes_of, plan


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    rows = empty_source(spark)
    for line in sys.stdin:
        order = json.loads(line)
        definition = msgspec.convert(order["definition"], PipelineDefinition)
        try:
            result = plan(definition, spark, lambda _: rows, transform_source=order["source"])
            answer: dict[str, object] = dict(result.dtypes)
            if order.get("recomputed"):
                query = definition.dataframe
                assert query is not None
                answer = recomputable(nodes_of(result), query, columns=result.columns)._asdict()
        except NotRecomputableError as error:
            answer = {"message": str(error)}
        except PlanError as error:
            answer = {"field": error.field, "message": error.message}
        print("ANSWER", json.dumps(answer), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
