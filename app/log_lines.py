"""Where the log lines of the server go, and which of the libraries' lines are worth one."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler

from app.settings import Settings
from app.state_files import prepare_folder


def log_to(settings: Settings) -> None:
    """Log lines go to standard error and, for the support bundle, to a file that cannot grow without end."""
    folder = settings.state_dir / "logs"
    prepare_folder(folder)
    handlers: list[logging.Handler] = [
        logging.StreamHandler(),
        RotatingFileHandler(folder / "server.log", maxBytes=5 * 1024 * 1024, backupCount=3, encoding="utf-8"),
    ]
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=handlers,
        force=True,
    )
    if settings.log_level != "debug":
        for noisy in ("uvicorn", "alembic.runtime.migration", "sse_starlette", "kafka", "httpx"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
