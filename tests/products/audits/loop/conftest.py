from __future__ import annotations

import pytest

from app.edges.db.database import Database
from tests.support.auditing import Audited
from tests.support.control_plane import ControlPlane


@pytest.fixture
async def audited(database: Database) -> Audited:
    plane = ControlPlane(database)
    await plane.pipeline()
    return Audited(plane)
