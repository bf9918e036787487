"""Answers with matches have a size."""

from __future__ import annotations

from unittest.mock import patch

import httpx
import pytest

import xscl.delivery.syndication.syndicated_feed as syndicated_feed
import xscl.service.match_views as showing
from tests.xscl.service.conftest import eventually, ok, send_batch


def pages(client: httpx.Client, address: str, first: str) -> list[list[str]]:
    """Return the ids of matches on each page."""
    found, query = [], first
    while query is not None:
        page = ok(client.get(f"{address}?{query}"))
        found.append([one["id"] for one in page["matches"]])
        query = page["next"]
    return found


def test_a_page_of_matches_ends_when_its_bytes_are_used_up(
    operator: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        ok(operator.put(f"/v1/subscriptions/{name}", json={"query": "S//r[./k->k]"}))
    sizes = (1_000, 1_000, 9_000, 1_000, 1_000)
    texts = {f"d{n}": f"<r><k>{'k' * size}</k></r>" for n, size in enumerate(sizes)}
    send_batch(operator, "S", texts)
    eventually(lambda: len(pages(operator, "/v1/matches", "limit=100")[0]) == 10)
    (all_of_them,) = pages(operator, "/v1/matches", "limit=100")
    (one,) = pages(operator, "/v1/subscriptions/one/matches", "limit=100")
    monkeypatch.setattr(showing, "PAGE_BYTES", 5_000)
    found = pages(operator, "/v1/matches", "limit=100")
    assert [len(page) for page in found] == [2, 2, 1, 1, 2, 2]
    assert [id for page in found for id in page] == all_of_them
    for first in ("limit=100", "after=0&limit=100"):
        found = pages(operator, "/v1/subscriptions/one/matches", first)
        assert [len(page) for page in found] == [2, 1, 2]
        ids = [id for page in found for id in page]
        assert ids == (one if first == "limit=100" else one[::-1])


def test_a_match_that_is_too_large_is_shown_with_its_size_and_the_others_come(
    operator: httpx.Client,
) -> None:
    query = f"SELECT <r>{'{x}' * 2_000}</r> FROM L//k->x"
    ok(operator.put("/v1/subscriptions/large", json={"query": query}))
    texts = {f"l{n}": f"<k>{'k' * size}</k>" for n, size in enumerate((10, 500_000, 10))}
    send_batch(operator, "L", texts)
    page = "/v1/subscriptions/large/matches?limit=10"
    eventually(lambda: len(ok(operator.get(page))["matches"]) == 3)
    newest, large, oldest = ok(operator.get(page))["matches"]
    assert large["xml"] == '<too-large bytes="1000014007" limit="16000000"/>'
    assert newest["xml"].count("<k>") == oldest["xml"].count("<k>") == 2_000
    assert "too-large" in operator.get("/v1/subscriptions/large/feed.atom").text
    shown = operator.get("/v1/subscriptions/large/feed.json")
    assert len(shown.content) < 1_000_000


@patch.object(syndicated_feed, "LARGEST", 1_000)
def test_a_page_of_atom_ends_when_its_bytes_are_used_up(operator: httpx.Client) -> None:
    ok(operator.put("/v1/subscriptions/atom", json={"query": "A//r->r"}))
    send_batch(operator, "A", {f"a{n}": f"<r>{'k' * 400}</r>" for n in range(9)})
    eventually(lambda: len(ok(operator.get("/v1/subscriptions/atom/matches"))["matches"]) == 9)
    ids: list[str] = []
    address: str | None = "/v1/subscriptions/atom/feed.json"
    sizes = []
    while address is not None:
        page = operator.get(address).json()
        sizes.append(len(page["items"]))
        ids += [item["_xscl"]["message"] for item in page["items"]]
        address = page.get("next_url")
    assert len(ids) == len(set(ids)) == 9
    assert max(sizes) < 5
