"""Roles and permissions: four roles, each including the ones below it, and one table of verbs.

viewer ⊂ operator ⊂ author ⊂ administrator
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum

import msgspec

from app.kit.errors import ForbiddenError, InvalidError


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    AUTHOR = "author"
    ADMINISTRATOR = "administrator"

    @property
    def rank(self) -> int:
        return list(Role).index(self)

    def includes(self, other: Role) -> bool:
        return self.rank >= other.rank


class PrincipalKind(StrEnum):
    USER = "user"
    SYSTEM = "system"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The user of an action: a person or program with a token, or one of Fenceline's own loops (`system`)."""

    name: str
    role: Role
    kind: PrincipalKind = PrincipalKind.USER


DRILLS = Principal(name="drills", role=Role.ADMINISTRATOR, kind=PrincipalKind.SYSTEM)
MIGRATIONS = Principal(name="migrations", role=Role.ADMINISTRATOR, kind=PrincipalKind.SYSTEM)
AUDITOR = Principal(name="auditor", role=Role.ADMINISTRATOR, kind=PrincipalKind.SYSTEM)
"""Requests the audits of a plan."""
COLLECTOR = Principal(name="collector", role=Role.ADMINISTRATOR, kind=PrincipalKind.SYSTEM)
"""Deletes collected orphans, and records the result."""
RECONCILER = Principal(name="reconciler", role=Role.ADMINISTRATOR, kind=PrincipalKind.SYSTEM)
COMMAND_LINE = Principal(name="command line", role=Role.ADMINISTRATOR, kind=PrincipalKind.SYSTEM)
"""The user of commands that work directly on the database, with its password."""


OWN_ACTORS = (DRILLS, MIGRATIONS, AUDITOR, COLLECTOR, RECONCILER, COMMAND_LINE)
_RESERVED_NAMES = frozenset(
    actor.name.replace(" ", joined) for actor in OWN_ACTORS for joined in ("", " ", "-", "_", ".")
) | {"system", "fenceline"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._@-]{0,62}")


def refuse_name(name: str) -> None:
    """Raise InvalidError for a malformed name, or one of Fenceline's own: the command log names both by it."""
    if not _NAME.fullmatch(name):
        raise InvalidError(
            f"{name!a} is not a valid name: use 1 to 63 letters, digits, '.', '_', '@' or '-', beginning with a letter",
            field="name",
        )
    if name.lower() in _RESERVED_NAMES:
        raise InvalidError(f"{name} is reserved for a part of Fenceline: take another name", field="name")


class Verb(StrEnum):
    """Every action of a principal. The command log has these names too."""

    VIEW = "view"
    READ_LOG = "read_log"
    READ_RECORDS = "read_records"
    PROBE_CLUSTER = "probe_cluster"
    START_RUN = "start_run"
    DRAIN_RUN = "drain_run"
    KILL_RUN = "kill_run"
    PAUSE_RUN = "pause_run"
    RESUME_RUN = "resume_run"
    RESTART_RUN = "restart_run"
    ROLL_RUN = "roll_run"
    RESET_OFFSETS = "reset_offsets"
    FENCE_TRANSACTION = "fence_transaction"
    END_TRANSACTION = "end_transaction"
    END_DEAD_TRANSACTION = "end_dead_transaction"
    EVICT_DEAD_MEMBER = "evict_dead_member"
    START_DRILL = "start_drill"
    STOP_DRILL = "stop_drill"
    START_MIGRATION = "start_migration"
    PAUSE_MIGRATION = "pause_migration"
    RESUME_MIGRATION = "resume_migration"
    ROLL_BACK_MIGRATION = "roll_back_migration"
    ABORT_MIGRATION = "abort_migration"
    ADVANCE_MIGRATION = "advance_migration"
    START_AUDIT = "start_audit"
    STOP_AUDIT = "stop_audit"
    CHANGE_AUDIT_PLAN = "change_audit_plan"
    LOOK_FOR_ORPHANS = "look_for_orphans"
    COLLECT_ORPHANS = "collect_orphans"
    VALIDATE_PIPELINE = "validate_pipeline"
    CREATE_PIPELINE = "create_pipeline"
    CHANGE_PIPELINE = "change_pipeline"
    NEW_CHECKPOINT = "new_checkpoint"
    DELETE_PIPELINE = "delete_pipeline"
    IMPORT_IDS = "import_ids"
    FORGET_IMPORTED_IDS = "forget_imported_ids"
    STORE_TRANSFORM_SOURCE = "store_transform_source"
    REGISTER_CLUSTER = "register_cluster"
    REMOVE_CLUSTER = "remove_cluster"
    VIEW_TOKENS = "view_tokens"
    CREATE_TOKEN = "create_token"  # noqa: S105 - a verb
    REVOKE_TOKEN = "revoke_token"  # noqa: S105 - a verb
    CREATE_LOGIN_LINK = "create_login_link"
    VIEW_SESSIONS = "view_sessions"
    END_SESSION = "end_session"
    LEASE_INSTANCE = "lease_instance"
    SIGNAL_INSTANCE = "signal_instance"
    END_RUN = "end_run"
    SUPPORT_BUNDLE = "support_bundle"
    VIEW_WEBHOOKS = "view_webhooks"
    PAUSE_WEBHOOK = "pause_webhook"
    RESUME_WEBHOOK = "resume_webhook"
    TEST_WEBHOOK = "test_webhook"
    ADD_WEBHOOK = "add_webhook"
    CHANGE_WEBHOOK = "change_webhook"
    REMOVE_WEBHOOK = "remove_webhook"


_V = Verb
NEEDED_ROLE: dict[Verb, Role] = {
    _V.VIEW: Role.VIEWER,
    # A Spark log may quote record contents, which only operators see.
    _V.READ_LOG: Role.OPERATOR,
    _V.READ_RECORDS: Role.OPERATOR,
    _V.PROBE_CLUSTER: Role.OPERATOR,
    _V.START_RUN: Role.OPERATOR,
    _V.DRAIN_RUN: Role.OPERATOR,
    _V.KILL_RUN: Role.OPERATOR,
    _V.PAUSE_RUN: Role.OPERATOR,
    _V.RESUME_RUN: Role.OPERATOR,
    _V.RESTART_RUN: Role.OPERATOR,
    _V.ROLL_RUN: Role.OPERATOR,
    _V.RESET_OFFSETS: Role.OPERATOR,
    _V.FENCE_TRANSACTION: Role.OPERATOR,
    _V.END_TRANSACTION: Role.OPERATOR,
    _V.START_DRILL: Role.OPERATOR,
    _V.STOP_DRILL: Role.OPERATOR,
    _V.START_MIGRATION: Role.OPERATOR,
    _V.PAUSE_MIGRATION: Role.OPERATOR,
    _V.RESUME_MIGRATION: Role.OPERATOR,
    _V.ROLL_BACK_MIGRATION: Role.OPERATOR,
    _V.ABORT_MIGRATION: Role.OPERATOR,
    _V.ADVANCE_MIGRATION: Role.ADMINISTRATOR,
    _V.START_AUDIT: Role.OPERATOR,
    _V.STOP_AUDIT: Role.OPERATOR,
    _V.CHANGE_AUDIT_PLAN: Role.AUTHOR,
    _V.LOOK_FOR_ORPHANS: Role.OPERATOR,
    _V.COLLECT_ORPHANS: Role.OPERATOR,
    _V.VALIDATE_PIPELINE: Role.AUTHOR,
    _V.CREATE_PIPELINE: Role.AUTHOR,
    _V.CHANGE_PIPELINE: Role.AUTHOR,
    # It makes a revision.
    _V.NEW_CHECKPOINT: Role.AUTHOR,
    _V.DELETE_PIPELINE: Role.AUTHOR,
    _V.IMPORT_IDS: Role.AUTHOR,
    _V.FORGET_IMPORTED_IDS: Role.AUTHOR,
    _V.STORE_TRANSFORM_SOURCE: Role.AUTHOR,
    _V.REGISTER_CLUSTER: Role.ADMINISTRATOR,
    _V.REMOVE_CLUSTER: Role.ADMINISTRATOR,
    _V.VIEW_TOKENS: Role.ADMINISTRATOR,
    _V.CREATE_TOKEN: Role.ADMINISTRATOR,
    _V.REVOKE_TOKEN: Role.ADMINISTRATOR,
    _V.CREATE_LOGIN_LINK: Role.ADMINISTRATOR,
    _V.VIEW_SESSIONS: Role.ADMINISTRATOR,
    _V.END_SESSION: Role.ADMINISTRATOR,
    _V.LEASE_INSTANCE: Role.ADMINISTRATOR,
    _V.SIGNAL_INSTANCE: Role.ADMINISTRATOR,
    _V.END_DEAD_TRANSACTION: Role.ADMINISTRATOR,
    _V.EVICT_DEAD_MEMBER: Role.ADMINISTRATOR,
    _V.END_RUN: Role.ADMINISTRATOR,
    _V.SUPPORT_BUNDLE: Role.ADMINISTRATOR,
    # A receiver's answer may have any content.
    _V.VIEW_WEBHOOKS: Role.OPERATOR,
    _V.PAUSE_WEBHOOK: Role.OPERATOR,
    _V.RESUME_WEBHOOK: Role.OPERATOR,
    _V.TEST_WEBHOOK: Role.OPERATOR,
    _V.ADD_WEBHOOK: Role.ADMINISTRATOR,
    _V.CHANGE_WEBHOOK: Role.ADMINISTRATOR,
    _V.REMOVE_WEBHOOK: Role.ADMINISTRATOR,
}


def allows(role: Role, verb: Verb) -> bool:
    return role.includes(NEEDED_ROLE[verb])


def require(principal: Principal, verb: Verb) -> None:
    """Raise ForbiddenError, naming both roles, unless the principal's role permits `verb`."""
    if not allows(principal.role, verb):
        words = verb.replace("_", " ")
        raise ForbiddenError(
            f"to {words} requires the role {NEEDED_ROLE[verb]}; {principal.name} is {principal.role}. "
            "An administrator can create a token of that role: fenceline tokens create NAME --role "
            f"{NEEDED_ROLE[verb]}"
        )


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A long-lived credential of a person or program. The secret itself is shown once and never stored."""

    id: str
    name: str
    role: Role
    created_at: datetime
    created_by: str
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


class LoginLink(msgspec.Struct, frozen=True, kw_only=True):
    """A used one-time link: its user, and its creator. created_by None: it was not recorded then."""

    principal: Principal
    created_at: datetime
    created_by: str | None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One browser that is logged in. `token_id`: the token of its login; revoking it ends the session too.

    token: its name. link_created_at, link_created_by: of the one-time link of its login instead, if known.
    last_used_at: to the minute; None: not since it began.
    """

    id: str
    principal: Principal
    token_id: str | None
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None = None
    token: str | None = None
    link_created_at: datetime | None = None
    link_created_by: str | None = None

    @property
    def began_with(self) -> str:
        """The token or link, in words."""
        if self.token is not None:
            return f"token {self.token}"
        return "a one-time link" if self.link_created_by is None else f"a one-time link of {self.link_created_by}"


class RunTokenScope(msgspec.Struct, frozen=True, kw_only=True):
    """The scope of a run token: one lease of one instance, its specification, heartbeats and events."""

    run_id: str
    ordinal: int
    lease: int
