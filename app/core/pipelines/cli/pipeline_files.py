"""The upload of pipeline files, with the Python file that a transform may name."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from app.core.pipelines import pipeline, pipeline_file
from app.core.pipelines.pipeline import DataframeQuery, PipelineDefinition, PythonFunction
from app.kit.cli.client import Client
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.output import console

File = Annotated[Path, typer.Option("--file", "-f", help="YAML or JSON; `-` reads standard input.", allow_dash=True)]
Source = Annotated[
    Path | None, typer.Option("--source", help="The transform's Python file; by default beside the file.")
]
Note = Annotated[str | None, typer.Option("--note", "-n", help="The purpose of this revision.")]


def read_pipeline(file: Path, source: Path | None) -> tuple[str, PipelineDefinition]:
    """Return name and definition in a file. Raises CommandError with every problem at its line or field.

    A transform that names a Python file without a SHA-256 gets that of `source`, else of the file beside this one.
    """

    def sha256_of(name: str) -> str:
        return hashlib.sha256(_read_bytes(source if source is not None else file.parent / name)).hexdigest()

    try:
        text = sys.stdin.read() if str(file) == "-" else _read_bytes(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"{file} is not UTF-8 text: {error}", code=ExitCode.INVALID) from error
    try:
        found = pipeline_file.read(text, sha256_of=sha256_of)
    except pipeline_file.PipelineFileError as error:
        lines = tuple(f"{p.field}: {p.message}" if p.field else p.message for p in error.problems)
        raise CommandError(f"{file} is not a pipeline file:", code=ExitCode.INVALID, lines=lines) from error
    return found.name, found.definition


def body_of(definition: PipelineDefinition) -> Any:
    """Return the definition as JSON data for a request."""
    return msgspec.to_builtins(definition)


def upload_source(client: Client, definition: PipelineDefinition, source: Path | None, *, beside: Path) -> None:
    """Upload the Python file that the definition names, if it names one and the file is available.

    Its SHA-256 must be the definition's. Without the file the server may have it already; otherwise it reports that.
    """
    transform = definition.transform
    file_name = transform.file_name if isinstance(transform, PythonFunction | DataframeQuery) else None
    if file_name is None:
        if source is not None:
            raise CommandError("--source is for a transform with a Python file; this definition has none")
        return
    path = source if source is not None else beside.parent / file_name
    if source is None and not path.is_file():
        return
    data = _read_bytes(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 != pipeline.sha256_of(transform):
        raise CommandError(
            f"{path} is not the file that the definition names",
            code=ExitCode.INVALID,
            lines=(f"transform.sha256: the file's is {sha256}",),
        )
    client.upload("/transform-sources", data)


def print_problems(problems: Iterable[Mapping[str, Any]]) -> None:
    """Print each problem at its field, with a mark for warnings."""
    for problem in problems:
        word = ("warning", "yellow") if problem["is_warning"] else ("error", "bold red")
        console.print(Text.assemble(word, f" {problem['field']}: {problem['message']}"), soft_wrap=True)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror or error}") from error
