"""`fenceline files`: list the files of committed references, read their records, collect orphans."""

from __future__ import annotations

import typer

from app.products.files.cli.collecting import collect
from app.products.files.cli.listing import list_
from app.products.files.cli.reading import read

app = typer.Typer(
    help="Files of pipelines that write them: list, read, collect orphans. Credentials for S3 come from the "
    "environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …).",
    no_args_is_help=True,
)
app.command("list")(list_)
app.command("read")(read)
app.command("collect")(collect)
