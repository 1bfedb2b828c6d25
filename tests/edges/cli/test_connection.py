"""The errors of commands about the server, the token or the token's file."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support.fixtures import Fenceline, json_of
from tests.support.serving import Serving
from tests.support.topics import unique_name

pytestmark = pytest.mark.slow


def test_without_a_server_the_address_and_what_to_type_are_named(fenceline: Fenceline) -> None:
    ended = fenceline("pipelines", "list", FENCELINE_SERVER_URL="http://127.0.0.1:1")
    assert ended.returncode == 3
    assert "http://127.0.0.1:1" in ended.stderr
    assert "fenceline serve" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_wrong_token_and_a_missing_one_have_different_errors(
    fenceline: Fenceline, tmp_path: Path, served: Serving
) -> None:
    wrong = fenceline("pipelines", "list", FENCELINE_TOKEN="flt_wrong")
    url = served.wait_until_serving()
    none = fenceline("pipelines", "list", FENCELINE_STATE_DIR=str(tmp_path / "empty"), FENCELINE_SERVER_URL=url)
    assert (wrong.returncode, none.returncode) == (4, 4)
    assert "revoked" in wrong.stderr
    assert "none was found" in none.stderr
    assert "fenceline tokens create" in none.stderr


def test_a_token_file_that_others_can_read_is_not_used(fenceline: Fenceline, tmp_path: Path, served: Serving) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "token").write_text(served.token)
    (state / "token").chmod(0o644)
    url = served.wait_until_serving()
    ended = fenceline("pipelines", "list", FENCELINE_STATE_DIR=str(state), FENCELINE_SERVER_URL=url)
    assert ended.returncode == 1
    assert f"chmod 600 {state / 'token'}" in ended.stderr


def test_too_low_a_role_is_named(fenceline: Fenceline) -> None:
    viewer = fenceline("tokens", "create", "looker", "--role", "viewer").stdout.strip()
    ended = fenceline("clusters", "remove", "none", "--yes", FENCELINE_TOKEN=viewer)
    assert ended.returncode == 4
    assert "administrator" in ended.stderr


def test_a_token_is_printed_alone_saved_on_request_and_gone_when_revoked(fenceline: Fenceline, tmp_path: Path) -> None:
    made = fenceline("tokens", "create", "script", "--role", "operator")
    assert made.stdout.strip().startswith("flt_")
    assert len(made.stdout.split()) == 1
    listed = json_of(fenceline("tokens", "list", "--json"))
    assert ("script", "operator") in {(token["name"], token["role"]) for token in listed}
    assert made.stdout.strip() not in fenceline("tokens", "list").stdout
    assert fenceline("tokens", "create", "script", "--role", "operator").returncode == 1
    assert fenceline("tokens", "revoke", "script", "--yes").returncode == 0
    refused = fenceline("pipelines", "list", FENCELINE_TOKEN=made.stdout.strip())
    assert refused.returncode == 4


def test_a_login_link_leads_to_the_running_server(fenceline: Fenceline, served: Serving) -> None:
    link = fenceline("tokens", "link", "ann", "--role", "author").stdout.strip()
    assert link.startswith(f"{served.wait_until_serving()}/login/fll_")


def test_a_session_is_listed_and_ended(fenceline: Fenceline, served: Serving) -> None:
    url, name = served.wait_until_serving(), unique_name("browser")
    secret = fenceline("tokens", "create", name, "--role", "viewer").stdout.strip()
    with httpx.Client(base_url=url, trust_env=False) as browser:
        browser.post("/login", data={"token": secret}, headers={"Origin": url})
        assert browser.get("/pipelines").status_code == 200
        [session] = [found for found in json_of(fenceline("sessions", "list", "--json")) if found["name"] == name]
        assert (session["role"], session["token"]) == ("viewer", name)
        assert name in fenceline("sessions", "list").stdout
        ended = fenceline("sessions", "end", session["id"], "--why", "a lost laptop", "--yes")
        assert (ended.returncode, ended.stdout.strip() or ended.stderr.strip()) == (0, f"logged {name} out")
        assert browser.get("/pipelines").headers["location"].startswith("/login")
        again = fenceline("sessions", "end", session["id"], "--yes")
        assert again.returncode != 0
        assert session["id"] in again.stderr
    assert name not in fenceline("sessions", "list").stdout


def test_the_schema_is_current(fenceline: Fenceline) -> None:
    assert json_of(fenceline("db", "current", "--json"))["is_current"] is True


def test_an_unreachable_broker_is_named(fenceline: Fenceline) -> None:
    ended = fenceline("clusters", "register", "away", "--bootstrap-servers", "127.0.0.1:1")
    assert ended.returncode == 3
    assert "127.0.0.1:1" in ended.stderr
    assert "tried for" in ended.stderr


def test_a_cluster_is_probed_and_listed(fenceline: Fenceline, cluster: str) -> None:
    assert json_of(fenceline("clusters", "probe", cluster, "--json"))["brokers"]
    assert cluster in {item["name"] for item in json_of(fenceline("clusters", "list", "--json"))}


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["serve"],
        ["clusters"],
        ["pipelines"],
        ["runs"],
        ["log"],
        ["tokens"],
        ["sessions"],
        ["db"],
        ["apply"],
        ["support-bundle"],
        ["doctor"],
        ["demo"],
    ],
    ids=" ".join,
)
def test_every_command_has_help(command: list[str]) -> None:
    from typer.testing import CliRunner

    from app.edges.cli import build

    result = CliRunner().invoke(build(), command if command == ["--help"] else [*command, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.output
