"""Limits of users: request rate and number of listeners."""

from __future__ import annotations

from contextlib import ExitStack

import httpx

from tests.xscl.service.conftest import Running, code, eventually, ok, token_of
from tests.xscl.service.listening import listening


def test_who_asks_all_the_time_is_told_to_wait_and_holds_up_nobody(
    running: Running, operator: httpx.Client, alice: httpx.Client
) -> None:
    with running.client(token_of(operator, "carol")) as carol:
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
        ok(alice.get("/v1/me"))


def test_a_quota_of_listeners(running: Running, operator: httpx.Client) -> None:
    with running.client(token_of(operator, "dora")) as dora, ExitStack() as stack:
        ok(operator.put("/v1/accounts/dora/quota", json={"listeners": 2}))
        with listening(dora, "/v1/events"):
            stack.enter_context(listening(dora, "/v1/events"))
            assert ok(dora.get("/v1/me"))["used"]["listeners"] == 2
            assert code(dora.get("/v1/events")) == (403, "quota_exceeded")
            with listening(operator, "/v1/events"):  # others are not touched
                pass
        eventually(lambda: ok(dora.get("/v1/me"))["used"]["listeners"] == 1)
        stack.enter_context(listening(dora, "/v1/events"))
