"""Limits of one user and of one subscription that no other test covers."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from threading import Barrier
from unittest.mock import Mock, patch

import httpx
import pytest

from tests.xscl.failing_commits import POINTS
from tests.xscl.polling.scripted import Clock
from tests.xscl.service.conftest import Running, code, eventually, ok
from tests.xscl.service.listening import listening
from tests.xscl.service.test_events import subscribed
from xscl.engine.facade import Engine
from xscl.errors import StoreError
from xscl.limiter import DailyQuota
from xscl.service import tokens
from xscl.service.accounts import Account, Accounts, Quota, QuotaExceeded, Usage
from xscl.service.tokens import SESSION, AccessToken, Tokens
from xscl.store.queries.rows import rows_of
from xscl.store.store import Store


def test_a_user_has_so_many_tokens(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.service.routes.tokens.MOST", 3)
    with running.user("alice") as alice:
        made = [ok(alice.post("/v1/tokens", json={"label": str(n)})) for n in range(2)]
        assert code(alice.post("/v1/tokens", json={})) == (403, "quota_exceeded")
        assert alice.delete(f"/v1/tokens/{made[0]['id']}").status_code == 204
        ok(alice.post("/v1/tokens", json={}))


def test_a_user_has_so_many_streams(running: Running, operator: httpx.Client) -> None:
    """A count of one is singular."""
    with running.user("frank") as frank:
        limits = {"streams": 1, "subscriptions": 1, "documents_a_day": 1}
        ok(operator.put("/v1/accounts/frank/quota", json=limits))
        ok(frank.post("/v1/documents/one", content=b"<a/>"))
        ok(frank.put("/v1/subscriptions/one", json={"query": "one//a"}))
        refused = [
            frank.put("/v1/streams/two", json={}),
            frank.put("/v1/subscriptions/two", json={"query": "one//a"}),
            frank.post("/v1/documents/one", content=b"<b/>"),
        ]
        assert [one.json()["detail"] for one in refused] == [
            "you have 1 stream, and may have 1",
            "you have 1 subscription, and may have 1",
            "you have sent 1 document today, which is all you may",
        ]
        ok(operator.put("/v1/accounts/frank/quota", json={"streams": 1}))
        answer = frank.post("/v1/documents/two", content=b"<a/>")
        assert code(answer) == (403, "quota_exceeded")
        ok(frank.post("/v1/documents/one", content=b"<a/>"))
        assert ok(frank.get("/v1/me"))["used"]["streams"] == 1


ENDPOINTS = "/v1/subscriptions/few/endpoints"
QUOTAS: dict[str, tuple[str, Callable[[httpx.Client, int], httpx.Response], str]] = {
    "subscriptions": (
        "subscriptions",
        lambda user, n: user.put(f"/v1/subscriptions/s{n}", json={"query": f"own//a{n}"}),
        "/v1/subscriptions/{name}",
    ),
    "feeds": (
        "feeds",
        lambda user, n: user.post("/v1/feeds", json={"url": f"https://h{n}.ex/", "keep": True}),
        "/v1/feeds/{key}",
    ),
    "endpoints": (
        "endpoints",
        lambda user, n: user.post(
            ENDPOINTS, json={"kind": "webhook", "url": f"http://8.8.8.8/{n}"}
        ),
        f"{ENDPOINTS}/{{id}}",
    ),
    "documents_a_day": (
        "documents_today",
        lambda user, n: user.post("/v1/documents/own", content=f"<a>{n}</a>"),
        "",
    ),
}
"""Objects with a quota: the name in `used`, the request for one more, and its address."""


@pytest.mark.parametrize("quota", QUOTAS)
def test_q9_a_quota(quota: str, running: Running, operator: httpx.Client) -> None:
    used, ask, address = QUOTAS[quota]
    path = f"/v1/accounts/user-{quota}/quota"
    with running.user(f"user-{quota}") as user:
        ok(user.put("/v1/streams/own", json={}))
        ok(user.put("/v1/subscriptions/few", json={"query": "own//few"}))
        most = ok(user.get("/v1/me"))["used"][used] + 2
        ok(operator.put(path, json={quota: most}))
        first = ok(ask(user, 0))
        ok(ask(user, 1))
        assert code(ask(user, 2)) == (403, "quota_exceeded")
        assert ok(user.get("/v1/me"))["used"][used] == most
        if address:
            assert user.delete(address.format(**first)).status_code == 204
            ok(ask(user, 2))
        ok(operator.put(path, json={}))
        ok(ask(user, 3))


def test_no_query_of_a_list_is_read_that_is_too_long(
    running: Running, operator: httpx.Client
) -> None:
    with running.user("grace") as grace:
        ok(operator.put("/v1/accounts/grace/quota", json={"subscriptions": 1}))
        ok(grace.put("/v1/subscriptions/one", json={"query": "feeds//a"}))
        ok(grace.put("/v1/subscriptions/one", json={"query": "feeds//a"}))
        row = b'{"name": "two", "query": "feeds//a["}'
        assert code(grace.post("/v1/subscriptions:import", content=row)) == (403, "quota_exceeded")
        wrong = grace.put("/v1/subscriptions/two", json={"query": "feeds//a["})
        assert code(wrong) == (422, "query")


def failing_after_commit(point: str) -> None:
    if point == "after_commit":
        raise StoreError("planted")


@dataclass(frozen=True)
class Kept:
    """The accounts and tokens of an engine, at a time that a test sets."""

    store: Store
    accounts: Accounts
    tokens: Tokens
    clock: Clock

    def rows(self) -> int:
        """Return the number of stored tokens and sessions."""
        return len(list(rows_of(self.store, "token")))

    def begin(self, token: str) -> str:
        session = self.tokens.begin_session(token, "a browser")
        assert session is not None
        return session


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    clock = Clock(0)
    monkeypatch.setattr(tokens, "ticks", clock)
    with Engine() as engine, closing(engine.connect()) as store:
        accounts = Accounts(store)
        yield Kept(store, accounts, Tokens(store, accounts), clock)


def granted(work: Callable[[], object]) -> int:
    """Return the number of accepted attempts among twelve at the same time."""
    together = Barrier(12)

    def attempt(_: int) -> bool:
        together.wait()
        with suppress(QuotaExceeded):
            work()
            return True
        return False

    with ThreadPoolExecutor(12) as pool:
        return sum(pool.map(attempt, range(12)))


def test_nobody_has_the_number_of_a_user_whose_creation_was_stored_and_failed(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(POINTS, failing_after_commit)
        with pytest.raises(StoreError):
            kept.accounts.make("alice")
    assert kept.accounts.make("bob").number == 2
    assert kept.accounts.make("alice").number == 1
    numbers = {row["name"]: row["number"] for row in rows_of(kept.store, "account")}
    assert numbers == {"alice": 1, "bob": 2}


def test_tokens_made_at_the_same_time_do_not_exceed_the_bound(kept: Kept) -> None:
    alice = kept.accounts.make("alice")
    assert granted(lambda: kept.tokens.create(alice, most=3)) == len(kept.tokens.of(alice)) == 3


def test_what_is_counted_at_the_same_time_does_not_exceed_a_quota(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(Counter[int]):
        def __getitem__(self, key: int) -> int:
            found = super().__getitem__(key)
            time.sleep(0.01)
            return found

    usage, alice = Usage([], []), Account(1, "alice", quota=Quota(subscriptions=3))
    monkeypatch.setitem(usage._kept, "subscriptions", Slow())

    def add() -> None:
        with usage.adding(alice, "subscriptions"):
            pass

    assert granted(add) == 3

    def slow() -> float:
        time.sleep(0.01)
        return 0.0

    sent = DailyQuota[int](slow)

    def send() -> None:
        if sent.consume(1, 3) is not None:
            raise QuotaExceeded("too many")

    assert granted(send) == sent.used(1) == 3


@patch.object(tokens, "SESSIONS", 3)
def test_a_user_has_so_many_sessions_and_the_oldest_ends(kept: Kept) -> None:
    owner = kept.tokens.owner
    alice, bob = (kept.accounts.make(name) for name in ("alice", "bob"))
    (_, signed), (_, bobs) = kept.tokens.create(alice), kept.tokens.create(bob)
    his = kept.begin(bobs)
    sessions = []
    for _ in range(5):
        kept.clock.now += 1
        sessions.append(kept.begin(signed))
    assert [owner(one) for one in sessions] == [None, None, alice, alice, alice]
    assert (owner(signed), owner(his)) == (alice, bob)
    kept.clock.now = SESSION + 4
    assert [owner(one) for one in sessions[2:]] == [None, alice, alice]
    last = kept.begin(bobs)
    again = Tokens(kept.store, kept.accounts)
    for text in (his, *sessions[:3]):
        assert owner(text) is again.owner(text) is None
    for text in (signed, bobs, last, *sessions[3:]):
        assert owner(text) == again.owner(text) is not None
    assert kept.rows() == 5


@pytest.mark.parametrize("way", ["revoke", "revoke_all"])
def test_a_token_that_is_revoked_during_a_sign_in_leaves_no_session(kept: Kept, way: str) -> None:
    alice = kept.accounts.make("alice")
    token, text = kept.tokens.create(alice)

    class Slow(Tokens):
        """The token is revoked as soon as it was found."""

        def owner(self, given: str) -> Account | None:
            account = super().owner(given)
            if kept.tokens.of(alice):
                ENDS[way](kept.tokens, token, "")
            return account

    assert Slow(kept.store, kept.accounts).begin_session(text, "a browser") is None
    assert kept.rows() == 0


ENDS: dict[str, Callable[[Tokens, AccessToken, str], object]] = {
    "revoke": lambda tokens, token, _: tokens.revoke(token.id),
    "revoke_all": lambda tokens, token, _: tokens.revoke_all(Account(token.account, "alice")),
    "sign out": lambda tokens, _, session: tokens.end_session(session),
}


@pytest.mark.parametrize("commit", ["usual", "takes effect and raises"])
@pytest.mark.parametrize("end", ENDS)
def test_a_connection_sees_at_once_that_its_token_is_over(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, end: str, commit: str
) -> None:
    reading = Mock(wraps=rows_of)
    monkeypatch.setattr(tokens, "rows_of", reading)
    alice, bob = kept.accounts.make("alice"), kept.accounts.make("bob")
    token, text = kept.tokens.create(alice)
    session = kept.begin(text)
    is_valid = kept.tokens.watched(session)
    assert is_valid()
    reading.reset_mock()
    for now, valid in ((SESSION, True), (SESSION + 1, False), (0, True)):
        kept.clock.now = now
        assert is_valid() is valid
    assert not reading.called, "nothing has changed"
    kept.tokens.revoke(kept.tokens.create(bob)[0].id)
    assert is_valid(), "another one was revoked"
    if commit != "usual":
        monkeypatch.setattr(POINTS, failing_after_commit)
    with suppress(StoreError):
        ENDS[end](kept.tokens, token, session)
    assert not is_valid()


@patch("xscl.delivery.outbox.endpoints.MOST", 2)
@patch("xscl.delivery.syndication.secret_addresses.MOST", 2)
def test_a_subscription_has_so_many_endpoints_and_secret_addresses(operator: httpx.Client) -> None:
    at = subscribed(operator, "few")
    for what, new in (("endpoints", {"kind": "file", "name": "f"}), ("addresses", {})):
        for _ in range(2):
            ok(operator.post(f"{at}/{what}", json=new))
        assert code(operator.post(f"{at}/{what}", json=new)) == (400, f"too_many_{what}")


@patch("xscl.service.routes.subscriptions.MOST", 3)
def test_an_import_has_so_many_rows_or_is_refused_whole(operator: httpx.Client) -> None:
    rows = [json.dumps({"name": f"row{n}", "query": "S//a"}) for n in range(4)]
    refused = operator.post("/v1/subscriptions:import", content="\n".join(rows))
    assert code(refused) == (413, "too_many_rows")
    assert operator.get("/v1/subscriptions/row0").status_code == 404
    assert ok(operator.post("/v1/subscriptions:import", content="\n".join(rows[:3])))["new"] == 3


def test_who_asks_all_the_time_is_told_to_wait_and_holds_up_nobody(
    running: Running, operator: httpx.Client
) -> None:
    with running.user("carol") as carol:
        ok(carol.put("/v1/streams/own", json={}))
        ok(carol.put("/v1/subscriptions/own", json={"query": "own//a->x"}))
        made = ok(carol.post("/v1/subscriptions/own/addresses", json={}))
        ok(operator.put("/v1/accounts/carol/quota", json={"requests_a_minute": 3}))
        answers = [carol.get("/v1/me") for _ in range(8)]
        refused = [one for one in answers if one.status_code != 200]
        assert len(refused) >= 4
        assert {code(one) for one in refused} == {(429, "too_many_requests")}
        assert all(0 < int(one.headers["retry-after"]) <= 20 for one in refused)
        # Who reads under her secret address reads in her place.
        with running.client() as reader:
            path = made["atom"].removeprefix(running.address)
            assert code(reader.get(path)) == (429, "too_many_requests")
        assert carol.get("/v1/health").status_code == 200
        ok(operator.get("/v1/me"))


def test_a_quota_of_listeners(running: Running, operator: httpx.Client) -> None:
    with running.user("dora") as dora, ExitStack() as stack:
        ok(operator.put("/v1/accounts/dora/quota", json={"listeners": 2}))
        with listening(dora, "/v1/events"):
            stack.enter_context(listening(dora, "/v1/events"))
            assert ok(dora.get("/v1/me"))["used"]["listeners"] == 2
            assert code(dora.get("/v1/events")) == (403, "quota_exceeded")
            with listening(operator, "/v1/events"):  # others are not touched
                pass
        eventually(lambda: ok(dora.get("/v1/me"))["used"]["listeners"] == 1)
        stack.enter_context(listening(dora, "/v1/events"))
