"""Read settings from the page of a standalone Spark master."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request

_TIMEOUT_S = 2.0
_LARGEST_PAGE_BYTES = 4 * 1024 * 1024
_RECOVERY = re.compile(r"<td>\s*spark\.deploy\.recoveryMode\s*</td>\s*<td>\s*([^<]*?)\s*</td>")
_PROPERTIES = "Spark Properties"
_Opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class PageError(Exception):
    """The page is missing, or not one of a Spark 4 master; with the reason."""


def recovery_mode(web_url: str) -> str:
    """Return `spark.deploy.recoveryMode` from the master's environment page; NONE, Spark's default, if it is not set.

    Its `/json/` page and its protocol have no field for it.

    Raises:
        PageError: it is unknown; masters before Spark 4.0 have no such page.
    """
    url = f"{web_url.rstrip('/')}/environment/"
    try:
        # An address of the administrator's settings; proxies are for the world outside.
        with _Opener.open(url, timeout=_TIMEOUT_S) as response:
            page = response.read(_LARGEST_PAGE_BYTES).decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        raise PageError(f"{url} answers {error.code}; masters before Spark 4.0 do not have it") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise PageError(f"{url} does not answer: {error or type(error).__name__}") from error
    if _PROPERTIES not in page:
        raise PageError(f"{url} is not the environment page of a Spark master")
    found = _RECOVERY.search(page)
    return found[1] if found else "NONE"
