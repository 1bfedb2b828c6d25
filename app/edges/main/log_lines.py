"""The destinations of the server's log lines, and the levels of the libraries' loggers."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler

from app.kit.printable import one_line
from app.kit.settings import Settings
from app.kit.state_files import prepare_folder


class OneLine(logging.Formatter):
    """A message is one line: quoted names come from outside, and must not look like another line.

    The lines of a traceback stay as they are.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        return one_line(super().formatMessage(record))


def log_to(settings: Settings) -> None:
    """Log lines go to standard error and, for the support bundle, to a file that cannot grow without end."""
    folder = settings.state_dir / "logs"
    prepare_folder(folder)
    handlers: list[logging.Handler] = [
        logging.StreamHandler(),
        RotatingFileHandler(folder / "server.log", maxBytes=5 * 1024 * 1024, backupCount=3, encoding="utf-8"),
    ]
    for handler in handlers:
        handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level.upper(), handlers=handlers, force=True)
    if settings.log_level != "debug":
        for noisy in ("uvicorn", "alembic.runtime.migration", "sse_starlette", "kafka", "httpx"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
