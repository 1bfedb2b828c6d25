"""The tail of a Spark log, and files that are never read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from app.core.runs.instance import Instance
from app.core.runs.pages.log_tail import TAIL_LINES, tail_of
from tests.support.page_samples import instance


def at(path: Path | None, *, host: str | None = None) -> Instance:
    return msgspec.structs.replace(instance(0), log_path=None if path is None else str(path), host=host)


def test_only_the_last_lines_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text("".join(f"line {number}\n" for number in range(5_000)))
    lines = tail_of(at(log), within=tmp_path).text.splitlines()
    assert len(lines) == TAIL_LINES
    assert lines[-1] == "line 4999"


def test_bytes_that_are_no_text_do_not_hide_the_rest(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_bytes(b"good\n\xff\xfe bad\nmore\n")
    assert "more" in tail_of(at(log), within=tmp_path).text


@pytest.mark.parametrize("name", ["../outside.log", "link.log"])
def test_a_path_that_leads_out_of_our_folder_is_not_read(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "state"
    inside.mkdir()
    (tmp_path / "outside.log").write_text("secret")
    (inside / "link.log").symlink_to(tmp_path / "outside.log")
    tail = tail_of(at(inside / name), within=inside)
    assert tail.text == ""
    assert "outside" in (tail.why_not or "")


def test_missing_log_is_reported(tmp_path: Path) -> None:
    missing = tail_of(at(tmp_path / "none.log"), within=tmp_path)
    assert "No such file" in (missing.why_not or "")
    early = tail_of(at(None), within=tmp_path)
    assert "not submitted" in (early.why_not or "")
    elsewhere = tail_of(at(tmp_path / "x.log", host="another-host"), within=tmp_path)
    assert "another-host" in (elsewhere.why_not or "")
