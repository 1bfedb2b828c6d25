"""The identity of this database, so that a restored one is distinguished from the one that was lost."""

from __future__ import annotations

import sqlalchemy as sa

from app.core.access.tables.access import one_time_links, tokens
from app.core.access.tables.identity import database_identity
from app.kit.db.store import DatabaseStore

# A restore into another cluster changes the system identifier. Recovery to a point in time and a failover change the
# timeline, and a reloaded dump the objects' numbers. pg_walfile_name begins with the timeline. It cannot be called
# during recovery, where nothing is written either.
_MARKER = sa.text(
    """
    SELECT concat_ws('.',
        (SELECT system_identifier FROM pg_control_system()),
        substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8),
        (SELECT oid FROM pg_database WHERE datname = current_database()),
        'database_identity'::regclass::oid) AS marker
    """
)


class IdentityStore(DatabaseStore):
    async def database_epoch(self) -> str:
        """Return the database's identity, which differs after a restore or a failover."""
        stored = (await self._db.execute(sa.select(database_identity))).one()
        marker = (await self._db.execute(_MARKER)).one().marker
        if stored.marker == marker:
            return stored.epoch
        # If two servers notice at once, the second one waits and then finds nothing to change.
        await self._db.execute(
            sa.update(database_identity)
            .where(database_identity.c.marker != marker)
            .values(marker=marker, epoch=sa.func.gen_random_uuid())
        )
        return (await self._db.execute(sa.select(database_identity.c.epoch))).scalar_one()

    async def is_fresh(self) -> bool:
        """Return whether no token was ever created: the first start."""
        statement = sa.select(
            ~sa.exists(sa.select(tokens.c.id)) & ~sa.exists(sa.select(one_time_links.c.secret_sha256))
        )
        return bool((await self._db.execute(statement)).scalar_one())
