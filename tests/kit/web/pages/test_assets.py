"""Browsers get the vendored files, and pages name existing ones only."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

from app.kit.web.pages.assets import STATIC_DIR, STYLESHEETS, asset_integrity, asset_url
from app.kit.web.pages.screen import TEMPLATES_DIR

VENDOR = STATIC_DIR / "vendor"
MANIFEST: list[dict[str, Any]] = json.loads((VENDOR / "manifest.json").read_text())["packages"]
FILES = [(package["name"], file["path"], file["sha256"]) for package in MANIFEST for file in package["files"]]


@pytest.mark.parametrize(("package", "path", "sha256"), FILES, ids=[path for _, path, _ in FILES])
def test_a_vendored_file_is_byte_for_byte_the_one_of_its_package(package: str, path: str, sha256: str) -> None:
    assert hashlib.sha256((VENDOR / path).read_bytes()).hexdigest() == sha256, f"{path} of {package} was changed"


def test_nothing_is_vendored_that_the_manifest_does_not_name() -> None:
    there = {str(file.relative_to(VENDOR)) for file in VENDOR.rglob("*") if file.is_file()}
    assert there == {path for _, path, _ in FILES} | {"manifest.json"}


@pytest.mark.parametrize("package", MANIFEST, ids=lambda package: package["name"])
def test_each_package_says_its_version_and_comes_with_its_licence(package: dict[str, Any]) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
    assert package["licence"]
    assert any(file["path"].endswith("LICENSE") for file in package["files"])


def test_every_asset_that_a_template_names_is_there_and_scripts_carry_their_sum() -> None:
    text = "".join(template.read_text() for template in TEMPLATES_DIR.rglob("*.html"))
    named = set(re.findall(r"asset\('([^']+)'\)", text))
    assert named >= {"app.js", "chart.js", "vendor/htmx/htmx.min.js"}
    for path in named:
        assert asset_url(path).startswith(f"/static/{path}?v=")
    for line in text.splitlines():
        if "<script" in line:
            source, integrity = re.findall(r"(?:asset|integrity)\('([^']+)'\)", line)
            assert source == integrity
            assert asset_integrity(source).startswith("sha256-")


def test_every_stylesheet_is_linked_and_every_link_is_an_own_stylesheet() -> None:
    assert set(STYLESHEETS) == {f"css/{file.name}" for file in (STATIC_DIR / "css").iterdir()}
    assert len(STYLESHEETS) == len(set(STYLESHEETS))


def test_no_template_has_inline_scripts_styles_or_handlers() -> None:
    for template in TEMPLATES_DIR.rglob("*.html"):
        text = template.read_text()
        for forbidden in (
            r"<script(?![^>]*\bsrc=)",
            r"<style\b",
            r"\sstyle=",
            r"\son[a-z]+=",
            r"javascript:",
            r"hx-on",
        ):
            assert not re.search(forbidden, text), f"{template.name} has {forbidden}, which the policy refuses"
