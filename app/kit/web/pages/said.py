"""What a page says once after a form: the address carries a word from this list, never a sentence."""

from __future__ import annotations

_SENTENCES = {
    "logged-out": "You are logged out.",
    "created": "Created. Nothing runs yet: start it when you are ready.",
    "changed": "Saved as a new revision.",
    "changed-rolling": "Saved as a new revision. The run takes it over one instance at a time.",
    "unchanged": "Nothing was changed, so there is no new revision.",
    "deleted": "Deleted.",
    "already-gone": "It was already gone, so nothing was changed.",
    "offsets-set": "The offsets are set. Start the pipeline now.",
    "started": "Starting. Instances appear below as Spark brings them up.",
    "draining": "Draining: each task finishes and commits what it has open, then leaves the group.",
    "killing": "Killing: the processes end at once; the brokers abort what is open in transactions.",
    "pausing": "Pausing: what is open is committed first, the group's members stay.",
    "resuming": "Resuming.",
    "restarting": "Restarting: it drains first and then starts at the current revision.",
    "rolling": "Bouncing: one instance after the other.",
    "cluster-registered": "Registered. Pipelines may name it now.",
    "cluster-removed": "Removed.",
    "drill-ordered": "Ordered. It begins within a second or two; what happens appears below.",
    "drill-stopped": "Stopping: nothing more begins, and what is frozen is thawed.",
    "migration-watched": "Watched from now on. You bounce it; what the brokers say of each stage is below.",
    "migration-moved": "Written down, with what is proven by now.",
    "migration-begun": "Begun. The preflight only looks; what it finds appears below.",
    "migration-paused": "Paused. No step begins; an instance that is between two leases still comes back.",
    "migration-resumed": "It goes on. What was missing is looked at again.",
    "migration-turned": "Turned round. It goes back by the same evidence.",
    "migration-aborted": "Aborted. Every instance stays as it is.",
    "migration-fence": "It is fenced as the next step.",
    "fenced": "Fenced. What was open is aborted, and whoever used the id is refused.",
    "transaction-ended": "Ended by an abort marker. Below is what readers see now.",
    "audit-asked": "Asked for. It begins as soon as the pipeline has passed the window.",
    "audit-planned": "Saved. Windows are audited as they are over.",
    "audit-stopped": "Stopping. Nothing is shown of the window.",
    "orphans-looked": "Asked for. How far it is stands under Orphans.",
    "orphans-collected": "Asked for. It looks anew, and deletes what is still an orphan; see under Orphans.",
    "ids-imported": "Imported. They are this pipeline's from now on.",
    "ids-forgotten": "Given up. The brokers keep the ids until they expire.",
    "webhook-added": "Added. It is told what happens from now on; send a test to see whether it is heard.",
    "webhook-changed": "Saved. What is on its way goes there too.",
    "webhook-paused": "Paused. What happens meanwhile waits.",
    "webhook-resumed": "Resumed.",
    "webhook-removed": "Removed.",
    "webhook-test": "A test is on its way; below is what the receiver answers.",
    "token-revoked": "Revoked. Sessions that began with it have ended.",
    "session-ended": "Session ended. Its open pages are logged out.",
}


def sentence_of(word: str | None) -> str | None:
    return None if word is None else _SENTENCES.get(word)
