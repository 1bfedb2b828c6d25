"""Each part of docs/permissions.md is used by a test, and each of those has a part."""

from tests.edges.kafka.permission_features import FEATURES, permissions_of_the_page


def test_every_part_of_the_page_is_used() -> None:
    assert list(permissions_of_the_page()) == list(FEATURES)
    assert all(permissions_of_the_page().values())
