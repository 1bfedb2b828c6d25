"""`fenceline support-bundle`: one zip for a maintainer, without secrets."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

import typer

from app.core.clusters import cluster_entry
from app.edges.embedded.doctor import Machine, examine
from app.kit.cli.client import Client, running_server_url, settings_or_exit
from app.kit.cli.errors import CommandError
from app.kit.cli.output import json_text, say
from app.kit.settings import Settings
from app.products.support_bundle.redaction import REMOVED, redact

_LOG_TAIL_BYTES = 256 * 1024
_LOGS = 50
_DATABASE_FOLDER = "postgres"
_COMMANDS = 500
_PACKAGES = ("fenceline", "confluent-kafka", "pyspark", "sqlalchemy", "psycopg", "fastapi", "uvicorn", "msgspec")
_README = """The contents, all of them plain text:
  versions.json     Fenceline, Python, the system and the main packages
  settings.json     the effective settings; secrets are removed
  doctor.json       the findings of `fenceline doctor`
  ready.json        the answer of /readyz
  definitions.json  all pipelines with their current definitions and runs
  clusters.json     clusters; secrets in them are references
  commands.json     the newest commands of the command log
  logs/             the ends of the newest logs in the state folder, without the embedded Postgres'
Values that looked like secrets were replaced. Review the files before you send them: a log may quote records.
"""


def support_bundle(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The zip to write; by default in the working directory.")
    ] = None,
) -> None:
    """Pack versions, settings, doctor, commands, definitions and logs into a zip, without secrets."""
    settings = settings_or_exit()
    now = datetime.now(UTC)
    path = output or Path(f"fenceline-support-{now:%Y%m%d-%H%M%S}.zip")
    secrets = _known_secrets(settings)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise CommandError(f"{path} exists already: name another file with --output") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or error}") from error
    with os.fdopen(handle, "wb") as opened, zipfile.ZipFile(opened, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in _parts(settings, now):
            bundle.writestr(name, redact(text, secrets=secrets))
    say(f"wrote {path}; review it before you send it")


def _parts(settings: Settings, now: datetime) -> Iterator[tuple[str, str]]:
    yield "README.txt", _README
    yield "versions.json", _json(_versions(now))
    yield "settings.json", _json(_shown_settings(settings))
    machine = Machine(environ=os.environ, database_url=settings.database_url, ports={})
    yield "doctor.json", _json([asdict(finding) for finding in examine(machine)])
    client = Client.of(settings)
    yield "ready.json", _json(_or_error(client.ready))
    yield "definitions.json", _json(_or_error(lambda: list(client.items("/pipelines"))))
    yield "clusters.json", _json(_or_error(lambda: _clusters(client)))
    yield "commands.json", _json(_or_error(lambda: list(client.items("/commands", limit=_COMMANDS))))
    for log in _logs(settings.state_dir):
        name = log.relative_to(settings.state_dir).as_posix().removeprefix("logs/")
        yield f"logs/{name}", _tail(log)


def _versions(now: datetime) -> dict[str, Any]:
    packages: dict[str, str] = {}
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    return {"at": now, "python": sys.version, "system": platform.platform(), "packages": packages}


def _shown_settings(settings: Settings) -> dict[str, Any]:
    shown = settings.model_dump(mode="json")
    if settings.database_url is not None:
        shown["database_url"] = REMOVED
    return {**shown, "server": running_server_url(settings)}


def _clusters(client: Client) -> list[Any]:
    items: list[Any] = client.get("/clusters")["items"]
    for item in items:
        for option in cluster_entry.SECRET_OPTIONS & item["client_config"].keys():
            if not item["client_config"][option].startswith(("env:", "file:")):
                item["client_config"][option] = REMOVED
    return items


def _or_error(ask: Callable[[], Any]) -> Any:
    """Return the server's answer, or the error: a bundle matters most when a part is down."""
    try:
        return ask()
    except CommandError as error:
        return {"not_available": str(error)}


def _logs(state_dir: Path) -> list[Path]:
    """Return the newest logs without the embedded database's, which quotes statements with their values."""
    database = state_dir / _DATABASE_FOLDER
    found = [
        path
        for path in state_dir.rglob("*.log")
        if path.is_file() and not path.is_symlink() and not path.is_relative_to(database)
    ]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)[:_LOGS]


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            opened.seek(max(0, path.stat().st_size - _LOG_TAIL_BYTES))
            return opened.read().decode("utf-8", "replace")
    except OSError as error:
        return f"not readable: {error.strerror or error}\n"


def _known_secrets(settings: Settings) -> set[str]:
    """Return every secret that this process could know by value."""
    found = {
        value for name, value in os.environ.items() if name == "FENCELINE_TOKEN" or name.startswith("FENCELINE_SECRET_")
    }
    files = [settings.token_file, settings.state_dir / _DATABASE_FOLDER / "password"]
    if settings.secrets_dir is not None and settings.secrets_dir.is_dir():
        files += [path for path in settings.secrets_dir.iterdir() if path.is_file()]
    for file in files:
        with suppress(OSError):
            text = file.read_text(encoding="utf-8", errors="replace")
            found.update({text, *text.splitlines()})
    if settings.database_url is not None:
        found.add(settings.database_url)
        password = _password_of(settings.database_url)
        if password:
            found.add(password)
    return {secret.strip() for secret in found if secret.strip()}


def _password_of(url: str) -> str | None:
    password = urlsplit(url).password
    return None if password is None else unquote(password)


def _json(value: Any) -> str:
    return json_text(value, is_indented=True, default=str) + "\n"
