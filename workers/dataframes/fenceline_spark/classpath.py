"""The jars that Spark needs for the sink."""

from importlib import resources
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "fenceline"


def jars() -> list[str]:
    """Paths of this package's jar, for `spark.jars` or `spark-submit --jars`."""
    folder = resources.files("fenceline_spark") / "jars"
    found = [str(file) for file in folder.iterdir() if file.name.endswith(".jar")] if folder.is_dir() else []
    if not found:
        raise FileNotFoundError("fenceline_spark was installed without its jar. Install the wheel, not the sources.")
    return found


def packages() -> str:
    """Maven coordinates of Spark's Kafka connector for this PySpark; it brings Kafka's client."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def configure(builder: "SparkSession.Builder", *, with_connector: bool = True) -> "SparkSession.Builder":
    """Add the jars to a session that is not started yet.

    Args:
        builder: `SparkSession.builder`. Values of `spark.jars` and `spark.jars.packages` set on it are kept.
        with_connector: also add Spark's Kafka connector, which Spark then downloads. False where it is installed.
    """
    options: dict[str, str] = getattr(builder, "_options", {})
    builder = builder.config("spark.jars", _joined(options.get("spark.jars"), *jars()))
    if with_connector:
        builder = builder.config("spark.jars.packages", _joined(options.get("spark.jars.packages"), packages()))
    return builder


def _joined(before: str | None, *more: str) -> str:
    return ",".join([*filter(None, [before]), *more])
