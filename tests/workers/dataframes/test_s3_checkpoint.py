"""A checkpoint in a store with the S3 API (moto)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.edges.embedded.maven import ensure_jars
from tests.support.dataframes.drivers import driver
from tests.support.dataframes.jobs import run_until_killed
from tests.support.object_store import CREDENTIALS, REGION, FaultyProxy, serving_s3
from tests.workers.dataframes.conftest import Control, MakeJob

pytestmark = pytest.mark.slow

HADOOP_AWS_JARS = "hadoop-aws-3.5.0"


def conf_of(endpoint: str) -> dict[str, str]:
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": CREDENTIALS["key"],
        "spark.hadoop.fs.s3a.secret.key": CREDENTIALS["secret"],
    }


def test_a_query_with_its_checkpoint_in_s3_writes_a_killed_batch_once(
    events: str, make_job: MakeJob, control: Control, tmp_path: Path
) -> None:
    expected = control("window")
    job = make_job()
    order = job.order(events, "window", checkpoint=f"s3a://checkpoints/{job.name}")
    jars = ensure_jars(HADOOP_AWS_JARS)
    with serving_s3() as s3:
        s3.client.create_bucket(Bucket="checkpoints")
        # moto's server mishandles `Expect: 100-continue`, which Amazon's SDK sends; the proxy does not pass it on.
        proxy = FaultyProxy(s3.port)
        with driver(tmp_path, conf=conf_of(proxy.url), jars=jars) as first:
            first.stop_at("COMMITTED", batch=1)
            run_until_killed(first, **order)
        with driver(tmp_path, conf=conf_of(proxy.url), jars=jars) as second:
            second.run(**order)
        proxy.close()
        assert f"{job.name}/commits/1" in s3.keys("checkpoints")
    assert job.rows() == expected
