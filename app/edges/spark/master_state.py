"""Read the state of an application from the `/json/` page of a standalone master."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping

import msgspec

from app.core.allow_lists.spark_master import DEFAULT_WEB_PORT, SparkMaster
from app.core.runs.observation import MasterWord

TIMEOUT_S = 2.0
_STILL_THERE = frozenset({"WAITING", "RUNNING", "UNKNOWN"})
_Opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class _Application(msgspec.Struct):
    id: str
    name: str
    state: str


class _State(msgspec.Struct):
    status: str
    activeapps: list[_Application] = []
    completedapps: list[_Application] = []


def word(
    master: SparkMaster, *, named: str, web_urls: Mapping[str, str], application_id: str | None, name: str
) -> MasterWord:
    """Return the report of the master that is ALIVE; standby masters know no applications.

    Args:
        named: the master in the definition. `web_urls` may map it to the address of its web page; by default it
            is on the master's hosts at Spark's default port.
        application_id: None before the driver has claimed; the application is then identified by its `name`.
    """
    addresses = (
        [web_urls[named]] if named in web_urls else [f"http://{host}:{DEFAULT_WEB_PORT}" for host, _ in master.hosts]
    )
    for address in addresses:
        state = _fetch(address)
        if state is not None and state.status == "ALIVE":
            return _judge(state, application_id=application_id, name=name)
    return MasterWord.UNREACHABLE


def _judge(state: _State, *, application_id: str | None, name: str) -> MasterWord:
    def is_ours(application: _Application) -> bool:
        return application.id == application_id if application_id is not None else application.name == name

    if any(is_ours(application) and application.state in _STILL_THERE for application in state.activeapps):
        return MasterWord.RUNNING
    if any(is_ours(application) for application in (*state.activeapps, *state.completedapps)):
        return MasterWord.FINISHED
    return MasterWord.UNKNOWN


def _fetch(address: str) -> _State | None:
    try:
        # An address of the administrator's settings or of an allowed master; proxies are for other networks.
        with _Opener.open(f"{address.rstrip('/')}/json/", timeout=TIMEOUT_S) as response:
            return msgspec.json.decode(response.read(), type=_State)
    except (OSError, http.client.HTTPException, urllib.error.URLError, ValueError, msgspec.MsgspecError):
        return None
