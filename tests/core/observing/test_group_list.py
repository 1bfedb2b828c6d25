"""Pages of groups, and members as people read them, on recorded journals."""

from __future__ import annotations

import pytest

from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_groups import GroupKind, GroupState
from app.core.journals.record_batch import split_batches
from app.core.observing.group_list import GroupQuery, members_of, select
from tests.support.recordings import GROUPS, VERSION_NAMES, recorded_bytes

both_versions = pytest.mark.parametrize("version", VERSION_NAMES)


def recorded(version: str, *, batches: int | None = None) -> LiveGroups:
    live = LiveGroups()
    for batch in list(split_batches(recorded_bytes(version, GROUPS)))[:batches]:
        live.apply(0, batch)
    return live


@both_versions
def test_groups_are_found_by_what_they_are(version: str) -> None:
    groups = recorded(version).groups

    def names(query: GroupQuery) -> set[str]:
        page = select(groups, query, after=None, limit=500)
        assert page.matching == len(page.items)
        return {group.group for group in page.items}

    assert names(GroupQuery()) == set(groups)
    assert names(GroupQuery(search="WAIT")) == {"waiting"}
    assert names(GroupQuery(has_pending=True)) == {"waiting"}
    assert names(GroupQuery(kinds=frozenset({GroupKind.CONSUMER}))) == {
        name for name, group in groups.items() if group.epoch is not None
    }
    assert names(GroupQuery(states=frozenset({GroupState.EMPTY}))) == {
        name for name, group in groups.items() if group.state is GroupState.EMPTY
    }


@both_versions
def test_pages_have_each_group_once_by_name(version: str) -> None:
    groups = recorded(version).groups
    found: list[str] = []
    after: str | None = None
    while True:
        page = select(groups, GroupQuery(), after=after, limit=1)
        found += [group.group for group in page.items]
        after = page.next_cursor
        if after is None:
            break
    assert found == sorted(groups)


@both_versions
def test_members_of_a_classic_group_own_what_its_leader_gave_them(version: str) -> None:
    """At every moment of the recording at which the group has members, they own each partition once."""
    batches = len(list(split_batches(recorded_bytes(version, GROUPS))))
    seen = 0
    for upto in range(batches):
        group = recorded(version, batches=upto).groups.get("classic")
        if group is None or not (members := members_of(group)):
            continue
        seen = max(seen, len(members))
        owned = [(at.topic, number) for member in members for at in member.owned for number in at.partitions]
        assert len(owned) == len(set(owned))
        assert all(member.client_id and not member.host.startswith("/") for member in members)
    assert seen > 0


@both_versions
def test_members_of_a_kip_848_group_have_their_epoch_and_state(version: str) -> None:
    batches = len(list(split_batches(recorded_bytes(version, GROUPS))))
    states: set[str | None] = set()
    for upto in range(batches):
        group = recorded(version, batches=upto).groups.get("modern")
        for member in members_of(group) if group is not None else ():
            states.add(member.state)
            assert (member.state is None) == (member.epoch is None)
    assert "stable" in states
