"""The message of a page after a form: the address carries a key of this list, never a sentence."""

from __future__ import annotations

from collections.abc import Mapping

_SENTENCES = {
    "logged-out": "You are logged out.",
    "created": "Created. Start it when you are ready.",
    "changed": "Saved as a new revision.",
    "changed-rolling": "Saved as a new revision. The run is bounced to it one instance at a time.",
    "unchanged": "Nothing was changed, so there is no new revision.",
    "deleted": "Deleted.",
    "already-gone": "It was removed already, so nothing was changed.",
    "offsets-set": "The offsets are set. Start the pipeline now.",
    "started": "Starting. Instances appear below as Spark brings them up.",
    "draining": "Draining: each task commits its open transaction, then leaves the group.",
    "killing": "Killing: the processes end at once; the coordinator aborts their open transactions.",
    "pausing": "Pausing: open transactions are committed first; the group's members stay.",
    "resuming": "Resuming.",
    "restarting": "Restarting: it drains first and then starts at the current revision.",
    "rolling": "Bouncing: one instance after the other.",
    "cluster-registered": "Registered. Pipelines may use it now.",
    "cluster-removed": "Removed.",
    "fenced": "Fenced. Its open transaction is aborted, and its older producers are fenced.",
    "transaction-ended": "Ended by an abort marker. The state of its consumers is below.",
    "ids-imported": "Imported. They belong to this pipeline now.",
    "ids-forgotten": "Released. The brokers keep the ids until they expire.",
    "token-revoked": "Revoked. Sessions that began with it have ended.",
    "session-ended": "Session ended. Its open pages are logged out.",
}


def register_sentences(sentences: Mapping[str, str]) -> None:
    """Add a product's. Raises ValueError for a second sentence of one word."""
    for word, sentence in sentences.items():
        if _SENTENCES.setdefault(word, sentence) != sentence:
            raise ValueError(f"{word} has another sentence already")


def sentence_of(word: str | None) -> str | None:
    return None if word is None else _SENTENCES.get(word)
