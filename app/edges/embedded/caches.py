"""The folder of downloads: one for each user, outside every checkout."""

import os
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """`$FENCELINE_CACHE_DIR`, else `$XDG_CACHE_HOME/fenceline`, else the platform's place; created when missing."""
    named = os.environ.get("FENCELINE_CACHE_DIR")
    path = Path(named).expanduser() if named else platformdirs.user_cache_path("fenceline", appauthor=False)
    path.mkdir(parents=True, exist_ok=True)
    return path
