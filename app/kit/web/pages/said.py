"""The message of a page after a form: the address carries a key of this list, never a sentence."""

from __future__ import annotations

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
    "drill-ordered": "Requested. It begins within a second or two; its events appear below.",
    "drill-stopped": "Stopping: no further step begins, and frozen processes are thawed.",
    "migration-watched": "Watched from now on. Bounce the instances; the brokers' evidence for each stage is below.",
    "migration-moved": "Recorded, with the present evidence.",
    "migration-begun": "Started. The preflight only checks; its findings appear below.",
    "migration-paused": "Paused. No step begins; an instance between two leases still gets its next lease.",
    "migration-resumed": "Resumed. The missing conditions are checked again.",
    "migration-turned": "Rolling back, with the same evidence.",
    "migration-aborted": "Aborted. Every instance keeps its mode.",
    "migration-fence": "It is fenced as the next step.",
    "fenced": "Fenced. Its open transaction is aborted, and its older producers are fenced.",
    "transaction-ended": "Ended by an abort marker. The state of its consumers is below.",
    "audit-asked": "Requested. It begins as soon as the pipeline has passed the window.",
    "audit-planned": "Saved. Windows are audited as they end.",
    "audit-stopped": "Stopping. The window has no verdict.",
    "orphans-looked": "Requested. Its progress is under Orphans.",
    "orphans-collected": "Requested. It scans again, and deletes confirmed orphans; see Orphans.",
    "ids-imported": "Imported. They belong to this pipeline now.",
    "ids-forgotten": "Released. The brokers keep the ids until they expire.",
    "webhook-added": "Added. It gets alerts from now on; send a test to check it.",
    "webhook-changed": "Saved. Pending deliveries go there too.",
    "webhook-paused": "Paused. New deliveries stay pending.",
    "webhook-resumed": "Resumed.",
    "webhook-removed": "Removed.",
    "webhook-test": "The test is pending; the receiver's answer appears below.",
    "token-revoked": "Revoked. Sessions that began with it have ended.",
    "session-ended": "Session ended. Its open pages are logged out.",
}


def sentence_of(word: str | None) -> str | None:
    return None if word is None else _SENTENCES.get(word)
