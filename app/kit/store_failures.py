"""Turn the error of a store's library into a sentence for logs."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(?P<scheme>://)[^/@\s]*@"  # a name and a password before a host
    r"|(?P<name>(?:X-Amz-(?:Signature|Credential|Security-Token)|Signature|AWSAccessKeyId|sig)=)[^&\s\"']*",
    re.IGNORECASE,
)
_MAX = 500


def sentence_of(error: BaseException) -> str:
    """Return its text, or the kind of error; without secrets of an address, and a few lines long at most."""
    text = " ".join(str(error).split())
    if not text:
        text = "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    text = _SECRET.sub(lambda found: f"{found['scheme'] or found['name']}…" + ("@" if found["scheme"] else ""), text)
    return text if len(text) <= _MAX else f"{text[:_MAX]}…"
