"""Set up the start of drivers on this host, by the settings."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.java import JavaMissingError, drivers_java
from app.edges.embedded.spark_sink import ensure_sink_jar, spark_kafka_jars
from app.edges.spark.launcher import SubmitLauncher
from app.edges.spark.spark_submit import SparkSubmit
from app.kit.errors import UnavailableError
from app.kit.settings import Settings

log = logging.getLogger(__name__)


def launcher_for(settings: Settings, spark_submit: SparkSubmit) -> SubmitLauncher:
    return SubmitLauncher(
        spark_submit,
        state_dir=settings.state_dir,
        master_web_urls=_pairs(settings.spark_master_web_urls),
    )


def spark_submit_for(settings: Settings) -> SparkSubmit:
    """Make a launcher with this environment's Python and PySpark; without Java it refuses every submission."""
    java_home, java_missing = _java(settings.java_home)
    return SparkSubmit(
        cache_dir=settings.cache_dir,
        version=version("fenceline"),
        python=sys.executable,
        worker_python=settings.worker_python,
        java_home=java_home,
        java_missing=java_missing,
        query_jars=query_jars,
        environment=_driver_environment(settings),
    )


def query_jars() -> Sequence[Path]:
    """Return Spark's Kafka connector and the sink, fetched and compiled where they are missing."""
    try:
        return [*spark_kafka_jars(), ensure_sink_jar()]
    except EmbeddedError as error:
        raise UnavailableError(f"the jars of DataFrames are missing: {error}; then start the pipeline again") from error


def _java(named: Path | None) -> tuple[Path | None, str | None]:
    """Return the Java of drivers, or the reason for none: the server runs without it, but instances fail."""
    try:
        return drivers_java(named).home, None
    except JavaMissingError as error:
        missing = f"no Spark application can be started: {error}; then restart the server"
        log.warning(missing)
        return None, missing


def _pairs(settings: Sequence[str]) -> Mapping[str, str]:
    return {master: url for master, is_pair, url in (pair.partition("=") for pair in settings) if is_pair}


def _driver_environment(settings: Settings) -> Mapping[str, str]:
    """Return the environment of drivers: a folder of secrets in the settings file counts as if it were exported."""
    if settings.secrets_dir is None:
        return dict(os.environ)
    return {**os.environ, "FENCELINE_SECRETS_DIR": str(settings.secrets_dir)}
