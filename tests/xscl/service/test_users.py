"""Users: each has his own names, and what is shared is not shown."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import httpx

from tests.xscl.service.conftest import code, eventually, ok, serving
from xscl.ingestion.data_directory import DataDirectory

TWICE = "orders//a->x FOLLOWED BY{x=y, 10 s} orders//a->y"


def test_two_users_have_streams_of_one_name(
    alice: httpx.Client, bob: httpx.Client, operator: httpx.Client
) -> None:
    unknown = alice.put("/v1/subscriptions/twice", json={"query": TWICE})
    assert code(unknown) == (422, "query")
    found = [unknown.json()[name] for name in ("line", "column", "detail")]
    assert found == [1, 1, "there is no stream 'orders'"]
    for user in (alice, bob):
        assert user.put("/v1/streams/orders", json={}).status_code == 201
        made = ok(user.put("/v1/subscriptions/twice", json={"query": TWICE}))
        assert (made["query"], made["reads"], made["own"]) == (TWICE, ["orders"], ["orders"])
        assert made.pop("warnings") == []
        assert ok(user.get("/v1/subscriptions"))["items"] == [made]
    assert ok(operator.get("/v1/subscriptions"))["items"] == []
    for number in (1, 2):
        body = f"<a>{number}</a>"
        for time in (10, 11):
            asked = {"id": f"d{number}{time}", "time": f"{time}000000"}
            ok(alice.post("/v1/documents/orders", params=asked, content=body))
    eventually(lambda: len(tried(alice)) == 2)
    pairs = sorted(match["documents"] for match in tried(alice))
    assert pairs == [["d110", "d111"], ["d210", "d211"]]
    assert tried(bob) == []
    plan = operator.get("/plan").text  # the operator sees whose streams there are
    assert "alice: orders" in plan
    assert "_1.orders" not in plan
    why = {"query": TWICE, "documents": ["d110", "d111"]}
    answer = ok(alice.post("/v1/why", json=why))
    assert answer["matched"]
    assert answer["documents"] == ["orders/d110", "orders/d111"]
    assert code(bob.post("/v1/why", json=why)) == (422, "unknown_document")


def tried(user: httpx.Client) -> list[dict[str, Any]]:
    return list(ok(user.post("/v1/try", json={"query": TWICE}))["matches"])


def test_a_subscription_reads_what_it_read_when_a_stream_of_that_name_is_made(
    alice: httpx.Client, operator: httpx.Client
) -> None:
    """The answer names the change, and the same request again changes nothing."""
    ok(operator.put("/v1/streams/prices", json={}))
    query = {"query": "prices//a->x"}
    made = ok(alice.put("/v1/subscriptions/watch", json=query))
    assert (made["reads"], made["own"]) == (["prices"], [])
    stream = alice.put("/v1/streams/prices", json={})
    assert (stream.status_code, stream.json()["still_public"]) == (201, ["watch"])
    again = alice.put("/v1/subscriptions/watch", json=query)
    assert (again.status_code, again.json()) == (200, made)
    rows = json.dumps({"name": "watch", **query})
    assert ok(alice.post("/v1/subscriptions:import", content=rows)) == {"new": 0, "unchanged": 1}
    other = alice.put("/v1/subscriptions/watch", json={"query": "prices//a->y"})
    assert code(other) == (409, "name_taken")
    own = ok(alice.put("/v1/subscriptions/own", json=query))
    assert own["own"] == ["prices"]
    for user in (operator, alice):
        ok(user.post("/v1/documents/prices", content="<a/>"))
    eventually(lambda: all(_matches(alice, name) == 1 for name in ("watch", "own")))
    assert ok(alice.delete("/v1/subscriptions/watch")) is None
    ok(alice.put("/v1/subscriptions/watch", json=query))
    assert ok(alice.put("/v1/streams/prices", json={}))["still_public"] == []


def test_a_stream_keeps_what_a_request_leaves_out(alice: httpx.Client) -> None:
    ok(alice.put("/v1/streams/kept", json={"lateness": "1 h", "attributes": {"price": "float"}}))
    kept = ok(alice.put("/v1/streams/kept", json={}))
    assert (kept["lateness"], kept["attributes"]) == (3600, {"price": "float"})
    assert ok(alice.put("/v1/streams/kept", json={"lateness": "0"}))["lateness"] == 0


def _matches(user: httpx.Client, name: str) -> int:
    return len(ok(user.get(f"/v1/subscriptions/{name}/matches"))["matches"])


def test_users_publish_in_their_own_names(
    alice: httpx.Client, bob: httpx.Client, operator: httpx.Client
) -> None:
    ok(operator.put("/v1/streams/news", json={}))
    shout = "SELECT <b>{x}</b> FROM news//a->x PUBLISH loud"
    made = ok(alice.put("/v1/subscriptions/shout", json={"query": shout}))
    assert (made["publishes"], made["reads"], made["own"]) == ("loud", ["news"], [])
    heard = ok(alice.put("/v1/subscriptions/hear", json={"query": "loud//b->x"}))
    assert (heard["query"], heard["own"]) == ("loud//b->x", ["loud"])
    assert code(bob.put("/v1/subscriptions/hear", json={"query": "loud//b->x"})) == (422, "query")
    assert code(alice.post("/v1/documents/loud", content="<b/>")) == (409, "stream_published")
    assert code(alice.post("/v1/documents/news", content="<a/>")) == (403, "stream_public")
    in_use = alice.delete("/v1/subscriptions/shout")
    assert code(in_use) == (409, "stream_in_use")
    assert "'hear'" in in_use.json()["detail"]
    assert "_" not in in_use.text.replace("stream_in_use", "")
    gone = ok(alice.delete("/v1/subscriptions/shout?cascade=true"))
    assert gone == {"removed": ["hear", "shout"]}
    assert code(alice.get("/v1/subscriptions/hear")) == (404, "unknown_subscription")


def test_names_of_the_service_are_refused(operator: httpx.Client, bob: httpx.Client) -> None:
    refused = (400, "reserved_name")
    for user in (operator, bob):
        for query in ("_1.orders//a->x", "SELECT <b/> FROM feeds//a->x PUBLISH _1.b"):
            asked = {"query": query}
            assert code(user.put("/v1/subscriptions/peek", json=asked)) == refused
            assert code(user.post("/v1/try", json=asked)) == refused
        assert code(user.get("/v1/subscriptions/_1.twice")) == refused
        assert code(user.put("/v1/streams/_1.x", json={})) == refused
        for sent in ("_1.orders", "mine?id=_1.d110"):
            assert code(user.post(f"/v1/documents/{sent}", content="<a/>")) == refused
    cel = {"query": "SELECT * FROM _1.orders", "language": "cel"}
    assert code(operator.put("/v1/subscriptions/peek", json=cel)) == refused
    assert code(bob.put("/v1/subscriptions/peek", json=cel)) == (403, "operator_only")


# -- Calendars in queries of users ---------------------------------------------------------


QUERY = "AT '0 9 * * *'->t NOT FOLLOWED BY{2 h} invoices//n"


def _posts(client: httpx.Client, hours: dict[str, int]) -> None:
    for name, hour in hours.items():
        address = f"/v1/documents/invoices?id={name}&time={hour * 3_600}000000"
        ok(client.post(address, content=f"<i><n>{name}</n></i>"))


def test_two_users_have_one_calendar(place: DataDirectory) -> None:
    with ExitStack() as stack:
        running = stack.enter_context(serving(place))
        clients = [stack.enter_context(running.user(name)) for name in ("clara", "dora")]
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
