"""The configuration that an audit's application is submitted with: a pure function of its specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.core.allow_lists.spark_master import SparkMasterKind, parse
from app.edges.spark.conf import Submission, defaults, is_on_this_machine, loopback, of_all
from app.products.audits.comparison import TableBaseline
from app.products.audits.specification import AuditSpecification

TRIES_OF_A_BATCH = 4


def of_audit(
    specification: AuditSpecification,
    *,
    python: str,
    driver_python: str,
    local_dir: str,
    jdbc_driver_jars: Sequence[str] = (),
) -> Submission:
    """Return the spark-submit properties of one audit, on the pipeline's own master.

    jdbc_driver_jars: paths on this host, for comparisons with tables alone.

    Unlike an instance it is a batch: Spark retries a failed task on any host and reuses workers. Its cores are bounded,
    so that the pipeline's instances keep theirs.
    """
    spark = specification.spark
    master = parse(spark.master)
    cores = specification.cores
    conf = {
        **defaults(),
        **spark.conf,
        **of_all(
            application_name=f"fenceline audit {specification.audit_id}",
            python=python,
            driver_python=driver_python,
            local_dir=local_dir,
        ),
        "spark.driver.memory": "1g",
        "spark.cores.max": str(cores),
        "spark.executor.cores": "1",
        "spark.executor.memory": f"{spark.executor_memory_mb}m",
        "spark.task.maxFailures": str(TRIES_OF_A_BATCH),
        **_jars(specification, spark.conf, jdbc_driver_jars),
        **(loopback() if is_on_this_machine(master) else {}),
    }
    named = f"local[{cores},{TRIES_OF_A_BATCH}]" if master.kind is SparkMasterKind.LOCAL else spark.master
    return Submission(master=named, conf=conf)


def is_recomputation(specification: AuditSpecification) -> bool:
    """Return whether the application runs the pipeline's query, which needs the jars of Spark's Kafka connector."""
    return specification.comparison is not None and specification.comparison.is_recomputation


def _jars(specification: AuditSpecification, conf: Mapping[str, str], jars: Sequence[str]) -> dict[str, str]:
    comparison = specification.comparison
    if comparison is None or not isinstance(comparison.baseline, TableBaseline) or not jars:
        return {}
    return {"spark.jars": ",".join((*filter(None, [conf.get("spark.jars")]), *jars))}
