"""A migration that is played behind pages that are real."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

from playwright.sync_api import Page

from app.products.migrations.migration import Migration, MigrationState, Stage
from tests.support.browser import NARROW, SCHEMES, WIDE, assert_accessible, assert_fits
from tests.support.live_application import LiveApplication
from tests.support.migrating import Migrating

_TURNS = 60


class Walked(NamedTuple):
    live: LiveApplication
    migrating: Migrating

    def until(self, stage: Stage) -> None:
        self._until(lambda seen: seen.stage is stage)

    def until_state(self, state: MigrationState) -> None:
        self._until(lambda seen: seen.state is state)

    def _until(self, is_so: Callable[[Migration], bool]) -> None:
        """Turn by turn: what takes long on a busy machine is one of them, and not all together."""
        seen = self.newest()
        for _ in range(_TURNS):
            if is_so(seen):
                return
            self.live.do(lambda _: self.migrating.turn())
            seen = self.newest()
        raise AssertionError(f"not so after {_TURNS} turns: {seen.stage}, {seen.state} {seen.missing}")

    def newest(self) -> Migration:
        return self.live.do(lambda _: self.migrating.newest())


def looked_at(page: Page, name: str) -> None:
    """Held to what every page is held to, wide and on a phone, and kept as pictures where a folder is named."""
    folder = os.environ.get("FENCELINE_TEST_SCREENSHOTS")
    for size, viewport in (("wide", WIDE), ("narrow", NARROW)):
        page.set_viewport_size(cast(Any, viewport))
        assert_fits(page, what=f"{name}, {size}")
        for scheme in SCHEMES if folder else ():
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=Path(str(folder)) / f"migration-{name}-{size}-{scheme}.png", full_page=True)
    page.set_viewport_size(cast(Any, WIDE))
    assert_accessible(page, what=name)
