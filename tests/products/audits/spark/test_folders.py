"""The folders of audits on this host: the size of a driver's log has a limit."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

from app.edges.spark.driver_files import LOG_LIMIT_BYTES
from app.edges.spark.spark_submit import SparkSubmit
from app.products.audits.launcher import AuditFiles, SubmitAuditLauncher


async def test_log_above_the_limit_is_trimmed(tmp_path: Path) -> None:
    submit = SparkSubmit(cache_dir=tmp_path / "cache", version="1", python=sys.executable)
    launcher = SubmitAuditLauncher(submit, state_dir=tmp_path)
    assert await launcher.trim_logs() == 0
    chatty, quiet = (AuditFiles(tmp_path / "audits" / str(uuid.uuid4())) for _ in range(2))
    other = AuditFiles(tmp_path / "audits" / "notes")
    for files, length in ((chatty, LOG_LIMIT_BYTES + 1), (quiet, 10), (other, LOG_LIMIT_BYTES + 1)):
        files.folder.mkdir(parents=True)
        files.log.write_bytes(b"x" * length)
    assert await launcher.trim_logs() == 1
    assert chatty.log.read_bytes() == b""
    assert chatty.older_log.stat().st_size == LOG_LIMIT_BYTES
    assert quiet.log.read_bytes() == b"x" * 10
    assert other.log.stat().st_size == LOG_LIMIT_BYTES + 1, "the folder belongs to no audit"
