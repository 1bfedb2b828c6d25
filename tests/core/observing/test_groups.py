"""The fencing events of a group, by the producers of its offsets."""

from __future__ import annotations

import msgspec
import pytest

from app.core.fencing.record import GroupLosses
from app.core.journals import group_records
from app.core.observing.service import groups
from app.core.observing.service.observations import Observations
from tests.support.observing import NOW_MS, cluster, hear, offset_batch, state_of, transaction_batch


@pytest.fixture
def observations() -> Observations:
    """The cluster "c", where the id `writer` has an offset of the group `g` pending, and `other` none."""
    live = cluster()
    hear(
        live,
        *(transaction_batch(name, state_of(producer_id=at), at=at) for at, name in ((7, "writer"), (8, "other"))),
    )
    hear(live, offset_batch("g", 9, at=0, producer_id=7), topic=group_records.TOPIC)
    made = Observations(is_on=True)
    made.publish(msgspec.structs.replace(live.snapshot(now_ms=NOW_MS), cluster="c"))
    return made


async def test_losses_of_a_group_include_the_ids_that_store_its_offsets(observations: Observations) -> None:
    found = await groups.losses_of(observations, cluster="c", group="g")
    assert found == GroupLosses(group_id="g", transactional_ids=("writer",))


@pytest.mark.parametrize(("cluster_name", "group"), [(None, "g"), ("elsewhere", "g"), ("c", "gone")])
async def test_losses_of_an_unread_group_are_its_members(
    observations: Observations, cluster_name: str | None, group: str
) -> None:
    assert await groups.losses_of(observations, cluster=cluster_name, group=group) == GroupLosses(group_id=group)


async def test_group_with_an_unstorable_name_is_found_by_its_stored_name(observations: Observations) -> None:
    found = await groups.losses_of(observations, cluster=None, group="nul\x00")
    assert found.group_id == "nul\N{REPLACEMENT CHARACTER}"
