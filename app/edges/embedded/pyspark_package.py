"""The place of the PySpark wheel, which has a complete Spark, and the Ivy that downloads jars."""

import importlib.util
from pathlib import Path

from app.edges.embedded.errors import EmbeddedError


def spark_home() -> Path:
    """The PySpark package's folder, which is a Spark installation; raises EmbeddedError when it is missing."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EmbeddedError("PySpark is not installed in this environment; run `make setup`")
    return Path(spec.origin).parent
