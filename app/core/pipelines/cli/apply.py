"""`fenceline apply -f`: create or change the server's pipeline after a file."""

from __future__ import annotations

from app.core.pipelines.cli.pipeline_files import (
    File,
    Note,
    Source,
    body_of,
    print_problems,
    read_pipeline,
    upload_source,
)
from app.kit.cli.client import connect
from app.kit.cli.errors import CommandError
from app.kit.cli.output import AsJson, Why, print_json, say


def apply(file: File, source: Source = None, note: Note = None, why: Why = None, as_json: AsJson = False) -> None:
    """Create the pipeline of a file, or change it by a new revision if it differs. A repetition changes nothing."""
    name, definition = read_pipeline(file, source)
    client = connect()
    upload_source(client, definition, source, beside=file)
    body = {"definition": body_of(definition), "note": note, "why": why}
    try:
        current: int | None = client.get(f"/pipelines/{name}")["current_revision"]
    except CommandError as error:
        if error.status != 404:
            raise
        current = None
    if current is None:
        saved = client.post("/pipelines", {"name": name, **body})
    else:
        saved = client.put(f"/pipelines/{name}", {**body, "expected_revision": current})
    if as_json:
        print_json(saved)
        return
    print_problems(saved["warnings"])
    revision = saved["pipeline"]["current_revision"]
    if current is None:
        say(f"created {name}, revision {revision}; start it: fenceline runs start {name}")
    elif not saved["is_changed"]:
        say(f"{name} is unchanged: revision {revision}")
    else:
        say(f"changed {name}: revision {revision}; see it: fenceline pipelines diff {name}")
        if saved["rolling"]:
            say("its run moves to it one instance at a time: fenceline runs show -w " + name)
        if saved["waits_for_restart"]:
            fields = ", ".join(saved["waits_for_restart"])
            say(f"the run keeps its revision, as {fields} changed: fenceline runs restart --full {name}")
