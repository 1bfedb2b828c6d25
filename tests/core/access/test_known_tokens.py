"""A run token is looked up once in a while, and an unknown one each time."""

from app.core.access.service.known_tokens import KNOWN_S, KnownRunTokens
from app.kit.access import RunTokenScope

SCOPE = RunTokenScope(run_id="r", ordinal=0, lease=1)


class Database:
    """Counts the searches for tokens."""

    def __init__(self) -> None:
        self.tokens = {"known": SCOPE}
        self.searches = 0
        self.now = 0.0
        self.kept = KnownRunTokens(now=lambda: self.now)

    async def scope_of(self, secret: str) -> RunTokenScope | None:
        async def find(wanted: str) -> RunTokenScope | None:
            self.searches += 1
            return self.tokens.get(wanted)

        return await self.kept.scope_of(secret, find)


async def test_known_token_is_searched_once_until_its_time_is_over() -> None:
    database = Database()
    assert [await database.scope_of("known") for _ in range(5)] == [SCOPE] * 5
    assert database.searches == 1
    database.now = KNOWN_S
    del database.tokens["known"]
    assert await database.scope_of("known") is None
    assert database.searches == 2


async def test_unknown_token_is_searched_each_time() -> None:
    database = Database()
    assert await database.scope_of("new") is None
    database.tokens["new"] = SCOPE
    assert await database.scope_of("new") == SCOPE
    assert database.searches == 2


async def test_many_tokens_do_not_fill_the_memory() -> None:
    database = Database()
    for number in range(20_001):
        database.tokens[str(number)] = SCOPE
        await database.scope_of(str(number))
    await database.scope_of("0")
    assert database.searches == 20_002
