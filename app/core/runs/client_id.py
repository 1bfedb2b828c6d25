"""The client ids of a task: from them a group coordinator's list shows the owner of a member."""

from __future__ import annotations

import re

import msgspec

_TASK = re.compile(r"(\d+)-(\d+)-l(\d+)-a(\d+)", re.ASCII)


class TaskName(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a task of a run, without the run's id; ordinals and leases start again with each run."""

    ordinal: int
    task: int
    lease: int
    attempt: int


def client_id_prefix(pipeline: str) -> str:
    """Return the prefix of the client ids of a pipeline's tasks."""
    return f"fenceline-{pipeline}-"


def client_id_of(pipeline: str, name: TaskName) -> str:
    return f"{client_id_prefix(pipeline)}{name.ordinal}-{name.task}-l{name.lease}-a{name.attempt}"


def task_of_client(pipeline: str, client_id: str) -> TaskName | None:
    """Return the task of a client id; None if it is not a task of this pipeline."""
    found = _TASK.fullmatch(client_id.removeprefix(client_id_prefix(pipeline)))
    if found is None or not client_id.startswith(client_id_prefix(pipeline)):
        return None
    ordinal, task, lease, attempt = map(int, found.groups())
    return TaskName(ordinal=ordinal, task=task, lease=lease, attempt=attempt)
