"""The receiver of docs/webhooks.md accepts a signed delivery once, and refuses others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx

from app.edges.embedded.ports import accepts_connections, free_ports
from app.kit.clock import SystemClock
from app.products.webhooks.signature import headers_of, key_of
from tests.support.waiting import wait_for
from tests.support.webhook_receiver import OTHER_SECRET, SECRET

DOCUMENT = Path(__file__).parents[3] / "docs/webhooks.md"
BODY = b'{"type": "test.happened", "data": {"sentence": "Nothing has happened."}}'


def test_example_takes_genuine_deliveries_once_and_refuses_others(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    (port,) = free_ports(1)
    receiver = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "WEBHOOK_SECRET": SECRET, "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        wait_for(lambda: accepts_connections(port), 10, "the example to listen")
        now_s = int(SystemClock().now().timestamp())
        old, new = (key_of(secret, reference="x") for secret in (SECRET, OTHER_SECRET))
        deliveries = [
            (204, headers_of("a", BODY, timestamp_s=now_s, keys=[old])),
            (204, headers_of("a", BODY, timestamp_s=now_s, keys=[old])),
            (204, headers_of("b", BODY, timestamp_s=now_s, keys=[new, old])),
            (401, headers_of("c", BODY, timestamp_s=now_s, keys=[new])),
            (401, headers_of("d", b"{}", timestamp_s=now_s, keys=[old])),
            (401, headers_of("e", BODY, timestamp_s=now_s - 400, keys=[old])),
        ]
        answers = [
            httpx.post(f"http://127.0.0.1:{port}/", content=BODY, headers=headers, trust_env=False).status_code
            for _, headers in deliveries
        ]
    finally:
        receiver.kill()
    out, _ = receiver.communicate(timeout=10)
    assert answers == [status for status, _ in deliveries]
    assert out.splitlines() == ["test.happened Nothing has happened."] * 2
