"""The life of looks for orphans, and what may be collected of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from app.products.files.orphan_findings import Amount, Collected, OrphanFindings, confirmed
from app.products.files.orphan_look import (
    MOST_ATTEMPTS,
    OrphanAct,
    OrphanLook,
    OrphanLookState,
    OrphanResult,
    begun,
    collected_so_far,
    ended,
    why_not_again,
)
from tests.support.orphans import findings, open_transaction, root_findings

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ASKED = OrphanLook(
    id="1", pipeline="flights", act=OrphanAct.LOOK, state=OrphanLookState.ASKED, asked_at=NOW, asked_by="anna"
)


def test_each_attempt_has_the_next_number_and_begins_with_nothing_told() -> None:
    first = replace(begun(ASKED, now=NOW), told="listing", deleted=Amount(files=3, size_bytes=30))
    second = begun(first, now=NOW + timedelta(seconds=5))
    assert (first.attempt, second.attempt) == (1, 2)
    assert (second.state, second.told, second.deleted) == (OrphanLookState.RUNNING, "", Amount())


def test_what_failed_has_a_reason_and_what_is_over_stays_so() -> None:
    at_work = begun(ASKED, now=NOW)
    done = ended(at_work, OrphanResult(findings=findings(NOW)), now=NOW)
    failed = ended(at_work, OrphanResult(reason="no broker answers"), now=NOW)
    assert (done.state, done.reason) == (OrphanLookState.DONE, None)
    assert (failed.state, failed.reason) == (OrphanLookState.FAILED, "no broker answers")
    for over in (done, failed):
        assert over.has_ended
        with pytest.raises(ValueError, match="is "):
            begun(over, now=NOW)
        with pytest.raises(ValueError, match="is "):
            ended(over, OrphanResult(), now=NOW)


def test_a_look_that_servers_die_in_is_begun_anew_a_few_times_and_a_collection_never() -> None:
    assert why_not_again(ASKED) is None
    look = ASKED
    for _ in range(MOST_ATTEMPTS - 1):
        look = begun(look, now=NOW)
        assert why_not_again(look) is None
    assert "3 servers ended" in (why_not_again(begun(look, now=NOW)) or "")
    collection = replace(ASKED, act=OrphanAct.COLLECT)
    assert why_not_again(collection) is None
    assert "Scan again" in (why_not_again(begun(collection, now=NOW)) or "")


def test_what_a_dead_collection_had_told_is_kept() -> None:
    deleted = Amount(files=2, size_bytes=20)
    assert collected_so_far(ASKED, deleted) is None
    told = collected_so_far(replace(ASKED, act=OrphanAct.COLLECT), deleted)
    assert told == Collected(deleted=deleted, aborted_uploads=None)


def test_what_is_confirmed_is_what_was_old_enough_then() -> None:
    found = findings(NOW, orphans=2, open_uploads=1)
    seen = confirmed("7", found)
    assert (seen.look_id, seen.orphans, seen.open_uploads) == ("7", found.orphans, 1)
    assert [one.judged_until for one in seen.roots] == [NOW - timedelta(seconds=1590)]


def test_figures_are_of_all_roots() -> None:
    one = root_findings(NOW, orphans=Amount(files=1, size_bytes=10), missing=2)
    other = root_findings(NOW, root="s3://lake", orphans=Amount(files=2, size_bytes=5), open_uploads=3)
    found = OrphanFindings(roots=(one, other))
    assert found.orphans == Amount(files=3, size_bytes=15)
    assert (found.missing, found.open_uploads, found.is_anything_to_collect) == (2, 3, True)
    assert not OrphanFindings(blocked=(open_transaction(NOW),)).is_anything_to_collect


def test_an_open_transaction_is_told_with_whose_it_is_and_since_when() -> None:
    told = open_transaction(NOW).sentence
    assert told == "A transaction of fl.t.flights.0.0 is open in out-0 from offset 41 on, since 2026-01-01 11:53:00 UTC"
