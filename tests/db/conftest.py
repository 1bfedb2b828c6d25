"""A control plane on a database of the test's own."""

from __future__ import annotations

import pytest

from app.db.database import Database
from tests.support.control_plane import ControlPlane


@pytest.fixture
def plane(database: Database) -> ControlPlane:
    return ControlPlane(database)
