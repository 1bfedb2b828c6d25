"""What the tests of pages share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from app.db.database import Database
from app.web.dependencies import Wiring
from tests.support.wiring import settings_for_test, wired


@pytest.fixture
async def wiring(database: Database, tmp_path: Path) -> AsyncGenerator[Wiring]:
    async with wired(database.url, settings_for_test(tmp_path)) as made:
        yield made
