"""Write and read the files of a broker's data folder and settings."""

from __future__ import annotations

import json
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path


def escaped(value: str) -> str:
    """Format as java.util.Properties reads it: Latin-1, with backslashes and everything else escaped."""
    units = value.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 32 <= code < 127 and code != 92 else f"\\u{code:04x}" for code in codes)


def cluster_id_of(folder: Path) -> str:
    """Return the id with which this data folder was formatted, or a new one."""
    path = folder / "cluster.json"
    if path.exists():
        return str(json.loads(path.read_text(encoding="utf-8"))["cluster_id"])
    # Kafka writes ids as 22 characters of URL-safe base64 and refuses one that begins with a dash.
    cluster_id = "-"
    while cluster_id.startswith("-"):
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
    path.write_text(json.dumps({"cluster_id": cluster_id}), encoding="utf-8")
    return cluster_id
