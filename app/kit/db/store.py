"""The base of the stores, which hold the statements about one noun."""

from __future__ import annotations

from app.kit.db.connection import Connection


class DatabaseStore:
    """The rows of one noun, in one unit of work. A store never commits.

    `get` raises NotFoundError with a sentence, `find` returns None. `for_update=True` locks the row until the unit of
    work ends, so that a decision based on it still holds when it is written.
    """

    def __init__(self, db: Connection) -> None:
        self._db = db
