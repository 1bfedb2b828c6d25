"""Orphans on the page of files, made up and looked at as HTML, and asked for by its forms."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from msgspec.structs import replace

from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.kit.access import Role, Verb, allows
from app.kit.web.pages import screen
from app.products.files import pages as files_page
from app.products.files.orphan_findings import Amount, Collected, KeptFile, OrphanFindings, confirmed
from app.products.files.orphan_look import OrphanAct, OrphanLook, OrphanLookState, OrphanResult
from app.products.files.service import showing
from app.products.files.service.orphans import NOBODY_LOOKED, Orphans
from app.products.files.service.showing import FilesPage
from tests.products.files.test_pages import NOW, page_of
from tests.support.control_plane import ControlPlane
from tests.support.orphans import begun, ended, findings, known, looked, open_transaction, root_findings
from tests.support.unit_of import UnitOf
from tests.support.wiring import browser_of
from tests.support.written_files import SINK

LOOKED = OrphanLook(
    id="7",
    pipeline="flights",
    act=OrphanAct.LOOK,
    state=OrphanLookState.DONE,
    asked_at=NOW - timedelta(minutes=2),
    asked_by="anna",
    attempt=1,
    findings=findings(NOW - timedelta(minutes=1)),
)


def after(look: OrphanLook, **more: Any) -> Orphans:
    judged = look if look.findings and look.findings.roots else None
    return Orphans(**{"newest": look, "judged": judged, **more})


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> Any:
    async def render(known: Orphans, role: Role = Role.OPERATOR) -> str:
        async def look(*_: Any, **__: Any) -> FilesPage:
            return replace(page_of(), orphans=known)

        monkeypatch.setattr(showing, "files_page", look)
        uow, principal = UnitOf(), SimpleNamespace(role=role)
        shown = await files_page.looking_at("flights", (), None)(uow, cast(Any, principal), NOW)

        def may(verb: Verb) -> bool:
            return allows(role, verb)

        context = {**shown.context, "now": NOW, "may": may}
        return re.sub(r"\s+", " ", screen.render("files/_list", context))

    return render


async def test_before_anybody_looked_it_says_what_an_orphan_is(rendered: Any) -> None:
    html = await rendered(NOBODY_LOOKED)
    assert "not scanned yet" in html
    assert "no committed reference names" in html
    assert ">Scan for orphans</button>" in html
    assert "Collect…" not in html


async def test_who_may_only_look_at_pages_is_offered_nothing(rendered: Any) -> None:
    html = await rendered(after(replace(LOOKED, findings=findings(NOW, orphans=2))), Role.VIEWER)
    assert "look-for-orphans" not in html
    assert "Collect…" not in html
    assert 'id="orphan-1"' in html


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (replace(LOOKED, state=OrphanLookState.ASKED, findings=None), "waiting for a server"),
        (replace(LOOKED, state=OrphanLookState.RUNNING, findings=None, told="12 files; waiting"), "12 files; waiting"),
        (replace(LOOKED, state=OrphanLookState.RUNNING, findings=None, attempt=2), "attempt 2"),
    ],
)
async def test_what_is_at_work_is_told_and_not_asked_for_again(rendered: Any, look: OrphanLook, words: str) -> None:
    html = await rendered(Orphans(newest=look, judged=replace(LOOKED, findings=findings(NOW, orphans=1))))
    assert words in html
    assert "scan by anna" in html
    assert "look-for-orphans" not in html
    assert "Collect…" not in html
    # What was found before is still there.
    assert 'id="orphan-1"' in html


async def test_a_reason_is_told(rendered: Any) -> None:
    failed = replace(
        LOOKED, state=OrphanLookState.FAILED, findings=None, reason="the folder file:///lake does not exist"
    )
    html = await rendered(after(failed))
    assert "failed" in html
    assert "the folder file:///lake does not exist" in html
    assert "No orphans" not in html


async def test_nothing_found_is_said(rendered: Any) -> None:
    html = await rendered(after(LOOKED))
    assert "No orphans" in html
    assert "Scan again" in html
    assert "Collect…" not in html


async def test_the_oldest_orphans_stand_with_size_and_age_and_collecting_names_them_all(rendered: Any) -> None:
    html = await rendered(after(replace(LOOKED, findings=findings(NOW, orphans=30, open_uploads=2))))
    assert html.count('id="orphan-') == 25
    assert "The oldest 25" in html
    assert "30 h ago" in html or "1 day ago" in html
    assert "Deletes 30 files (5.7 MB) and aborts 2 open uploads permanently" in html
    assert '<input type="hidden" name="look" value="7">' in html


async def test_files_that_are_unknown_have_their_reason(rendered: Any) -> None:
    found = findings(NOW, unknown=Amount(files=3, size_bytes=9), known_since=None, known_since_why="a topic is new")
    html = await rendered(after(replace(LOOKED, findings=found)))
    assert "all files: a topic is new" in html


async def test_missing_files_are_told_at_the_top_and_with_their_references(rendered: Any) -> None:
    html = await rendered(after(replace(LOOKED, findings=findings(NOW, missing=2))))
    assert "<strong>Files are missing:</strong> 2 committed references name files" in html
    assert "out-0@1" in html
    assert "Files are missing" not in await rendered(after(LOOKED))


async def test_an_open_transaction_is_named_and_leads_to_why(rendered: Any) -> None:
    blocked = replace(LOOKED, findings=OrphanFindings(blocked=(open_transaction(NOW),)))
    html = await rendered(after(blocked))
    assert "fl.t.flights.0.0 is open in out-0 from offset 41 on, since" in html
    assert "/stuck?cluster=demo&amp;target=out%3A0" in html
    assert "No orphans" not in html


async def test_what_was_deleted_and_kept_is_told(rendered: Any) -> None:
    kept = KeptFile(root="file:///lake", path="flights/<x>.avro", why="it has changed since it was listed")
    done = replace(
        LOOKED,
        act=OrphanAct.COLLECT,
        confirmed=confirmed("7", findings(NOW, orphans=3)),
        collected=Collected(
            deleted=Amount(files=2, size_bytes=2_000_000), aborted_uploads=1, kept_files=1, kept=(kept,)
        ),
    )
    html = await rendered(after(done, collected=done))
    assert "deleted <strong>2 files (2.0 MB)</strong>, aborted 1 uploads, and kept 1" in html
    assert "flights/&lt;x&gt;.avro" in html
    assert "it has changed since it was listed" in html
    dead = replace(
        done,
        state=OrphanLookState.FAILED,
        reason="the server ended before it was complete",
        findings=None,
        collected=Collected(deleted=Amount(files=2, size_bytes=2_000_000)),
    )
    html = await rendered(Orphans(newest=dead, judged=LOOKED, collected=dead))
    assert "incomplete collection deleted <strong>2 files" in html
    assert "with an unknown number of aborted uploads" in html


async def test_two_roots_are_told_apart(rendered: Any) -> None:
    one = root_findings(NOW, unknown=Amount(files=1, size_bytes=1))
    other = root_findings(NOW, root="s3://lake", skew_ms=-400, not_ours=Amount(files=1, size_bytes=3))
    html = await rendered(after(replace(LOOKED, findings=OrphanFindings(roots=(one, other)))))
    assert "s3://lake: a file is judged after" in html
    assert "0.4 s behind the server’s" in html


class Visited:
    def __init__(self, plane: ControlPlane, browser: httpx.AsyncClient) -> None:
        self.plane = plane
        self.browser = browser


@pytest.fixture
async def visited(wiring: Wiring) -> AsyncGenerator[Visited]:
    database = cast(Database, SimpleNamespace(unit_of_work=wiring.unit_of_work))
    plane = ControlPlane(database, now=datetime.now(UTC))
    await plane.pipeline("flights", files=SINK)
    async with browser_of(wiring, Role.OPERATOR) as browser:
        yield Visited(plane, browser)


async def test_looking_and_collecting_are_asked_for_on_the_page(visited: Visited) -> None:
    there = "/pipelines/flights/files"
    sent = await visited.browser.post(f"{there}/orphans", data={})
    assert (sent.status_code, sent.headers["location"]) == (303, f"{there}?said=orphans-looked")
    again = await visited.browser.post(f"{there}/orphans", data={})
    assert again.status_code == 409
    assert "has not ended yet" in again.text
    newest = (await known(visited.plane)).newest
    assert newest is not None
    at_work = await begun(visited.plane, newest)
    assert at_work is not None
    await ended(visited.plane, at_work[0], OrphanResult(findings=findings(visited.plane.now, orphans=2)))
    page = await visited.browser.get(there)
    look_id = re.search(r'name="look" value="([^"]+)"', page.text)
    assert look_id is not None
    assert "Deletes 2 files" in page.text
    wrong = await visited.browser.post(f"{there}/orphans/collect", data={"look": "of yesterday"})
    assert wrong.status_code == 409
    sent = await visited.browser.post(f"{there}/orphans/collect", data={"look": look_id[1], "why": "full"})
    assert (sent.status_code, sent.headers["location"]) == (303, f"{there}?said=orphans-collected")
    collection = (await known(visited.plane)).newest
    assert collection is not None
    assert collection.act is OrphanAct.COLLECT
    commands = await visited.browser.get("/commands")
    assert "collection" in commands.text
    assert "look for orphans" in commands.text


async def test_a_pipeline_that_is_not_there_is_said(visited: Visited) -> None:
    assert (await visited.browser.post("/pipelines/nobody/files/orphans", data={})).status_code == 404


async def test_the_page_is_told_of_every_step(visited: Visited) -> None:
    await looked(visited.plane, OrphanResult(reason="the bucket lake does not exist"))
    page = await visited.browser.get("/pipelines/flights/files")
    assert "the bucket lake does not exist" in page.text
