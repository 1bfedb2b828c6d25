"""The files of pipelines as a data source of Spark: `spark.dataSource.register(FencelineFiles)`.

It runs in a user's Spark session and on its executors, not in the instances of pipelines. So it is here with the
reader, and not in workers/spark, the only other package that imports pyspark.
"""

from __future__ import annotations

from app.products.files.reader.spark.source import FencelineFiles

__all__ = ["FencelineFiles"]
