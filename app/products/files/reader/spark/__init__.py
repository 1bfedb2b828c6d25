"""The files of pipelines as a data source of Spark: `spark.dataSource.register(FencelineFiles)`.

It runs in its user's Spark session and on its executors, not in the instances of pipelines: therefore it is here, with
the reader, and not in workers/spark. The only other room that imports pyspark.
"""

from __future__ import annotations

from app.products.files.reader.spark.source import FencelineFiles

__all__ = ["FencelineFiles"]
