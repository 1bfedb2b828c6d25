"""Where downloads are kept: per user, outside every checkout."""

from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/fenceline`, or the platform's own place for caches; created when missing."""
    path = platformdirs.user_cache_path("fenceline", appauthor=False)
    path.mkdir(parents=True, exist_ok=True)
    return path
