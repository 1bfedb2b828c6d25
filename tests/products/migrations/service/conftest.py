"""A pipeline whose migration is simulated."""

from __future__ import annotations

import pytest

from app.edges.db.database import Database
from tests.support.control_plane import ControlPlane
from tests.support.migrating import Migrating


@pytest.fixture
def migrating(database: Database) -> Migrating:
    return Migrating(ControlPlane(database))
