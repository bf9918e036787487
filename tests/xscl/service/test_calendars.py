"""Calendars in queries of users: nobody's stream, shared by all, with the instants of each."""

from __future__ import annotations

import httpx

from tests.xscl.service.conftest import Running, eventually, ok, token_of

QUERY = "AT '0 9 * * *'->t NOT FOLLOWED BY{2 h} invoices//n"


def _posts(client: httpx.Client, hours: dict[str, int]) -> None:
    for name, hour in hours.items():
        address = f"/v1/documents/invoices?id={name}&time={hour * 3_600}000000"
        ok(client.post(address, content=f"<i><n>{name}</n></i>"))


def test_two_users_have_one_calendar(running: Running, operator: httpx.Client) -> None:
    names = ("clara", "dora")
    clients = [running.client(token_of(operator, name)) for name in names]
    try:
        for client in clients:
            ok(client.put("/v1/streams/invoices", json={"live": False}))
            asked = ok(client.post("/v1/check", json={"query": QUERY}))
            assert not asked.get("warnings")
            made = ok(client.put("/v1/subscriptions/missing", json={"query": QUERY}))
            assert made["query"] == QUERY
        _posts(clients[0], {"c1": 24 + 8, "c2": 24 + 10, "c3": 48 + 12})
        _posts(clients[1], {"d1": 72 + 10, "d2": 96 + 12})

        def found(client: httpx.Client) -> list[str]:
            matches = ok(client.get("/v1/subscriptions/missing/matches"))["matches"]
            return sorted(one["bindings"]["t"][0]["value"][:10] for one in matches)

        eventually(lambda: len(found(clients[1])) == 3)
        assert found(clients[0]) == ["1970-01-03", "1970-01-04", "1970-01-05"]
        assert found(clients[1]) == ["1970-01-02", "1970-01-03", "1970-01-05"]
        tried = ok(clients[0].post("/v1/try", json={"query": QUERY}))
        assert tried["total"] >= 1
        shown = ok(clients[0].get("/v1/subscriptions/missing/explain"))
        assert "At 09:00, UTC" in str(shown) or "AT '0 9 * * *'" in str(shown)
    finally:
        for client in clients:
            client.close()
