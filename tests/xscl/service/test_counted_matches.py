"""Counters of matches, lists, pages, feeds and SQL have the same matches."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.examples import usually
from tests.xscl.service.conftest import eventually, ok

SAME = "{0}pa//item[./title->t] JOIN{{t = u, 3 d}} {0}pb//item[./title->u]"


def items(title: str, text: str = "") -> bytes:
    return f"<item><title>{title}</title><d>{text}</d></item>".encode()


def counted(client: httpx.Client, name: str) -> dict[str, int]:
    """Return the number of matches of a subscription by each surface."""
    listed = ok(client.get(f"/v1/subscriptions/{name}/matches", params={"after": 0}))["matches"]
    rows = ok(client.post("/v1/sql", json={"query": "SELECT subscription FROM matches"}))["rows"]
    page = re.sub(r"<[^>]*>", "", client.get("/subscriptions", params={"q": name}).text)
    shown = re.search(rf"(\d+) match(?:es)? of {name}", page)
    feed = client.get(f"/v1/subscriptions/{name}/feed.atom").text
    return {
        "list": len(listed),
        "relation": sum(one[0] == name for one in rows),
        "page": -1 if shown is None else int(shown[1]),
        "feed": feed.count("<entry"),
        "matches": client.get("/", params={"subscription": name}).text.count("<article"),
    }


def agreed(client: httpx.Client, name: str, number: int) -> None:
    """Wait until all surfaces have a number of matches; answers in SQL may be a second old."""
    eventually(lambda: set(counted(client, name).values()) == {number})


@pytest.mark.parametrize(
    ("distinct", "updates"),
    usually(
        [("", False), ("", True), ("DISTINCT ", False), ("DISTINCT ", True)],
        *(("", False), ("DISTINCT ", True)),
        several=True,
    ),
)
def test_edits_of_an_item_count_where_they_are_listed(
    operator: httpx.Client, updates: bool, distinct: str
) -> None:
    name = f"edited{updates}{distinct.strip()}".lower()
    query = SAME.format(name)
    if distinct:
        query = f"SELECT DISTINCT * FROM {query}"
    ok(operator.post(f"/v1/documents/{name}pa?id=a1", content=items("same")))
    kept = f"SELECT 1 FROM documents WHERE list_contains(streams, '{name}pa')"
    eventually(lambda: ok(operator.post("/v1/sql", json={"query": kept}))["rows"])
    body = {"query": query, "updates": updates}
    ok(operator.put(f"/v1/subscriptions/{name}", json=body))
    if not updates:  # shares the join, and its results of new versions
        body = {"query": query, "updates": True, "history": False}
        ok(operator.put(f"/v1/subscriptions/{name}-too", json=body))
    for text in ("", "corrected", "corrected again"):
        ok(operator.post(f"/v1/documents/{name}pb?id=b1", content=items("same", text)))
    expected = 3 if updates else 1
    eventually(lambda: counted(operator, name)["list"] == expected)
    last = f"/v1/documents/{name}pb?id=b2"
    ok(operator.post(last, content=items("same")))
    agreed(operator, name, expected + 1)


def test_a_name_that_is_used_again_has_its_own_matches_everywhere(operator: httpx.Client) -> None:
    path, old = "/v1/subscriptions/again", "/v1/subscriptions/again (removed)"
    for number, query in enumerate(("again//a->x", "again//b->x", "again//b->y")):
        ok(operator.put(path, json={"query": query, "history": False}))
        agreed(operator, "again", 0)
        kind = "a" if number == 0 else "b"
        ok(operator.post(f"/v1/documents/again?id=g{number}", content=f"<{kind}/>"))
        agreed(operator, "again", 1)
        (match,) = ok(operator.get(f"{path}/matches", params={"after": 0}))["matches"]
        assert (match["version"], match["documents"]) == (1, [f"g{number}"])
        if number == 0:
            ok(operator.put(f"/v1/stars/{match['id']}", json={"position": match["position"]}))
        assert operator.delete(path).status_code == 204
    removed = ok(operator.get("/v1/subscriptions:removed"))
    assert [one["name"] for one in removed if one["name"].startswith("again")] == [
        "again",
        "again (removed 2)",
        "again (removed)",
    ]
    (match,) = ok(operator.get(f"{old}/matches", params={"after": 0}))["matches"]
    assert (match["subscription"], match["documents"]) == ("again (removed)", ["g0"])
    assert [one["query"] for one in ok(operator.get(f"{old}/versions"))] == ["again//a->x"]
    shown = operator.get("/", params={"subscription": "again (removed)"}).text
    assert shown.count("<article") == 1
    assert "again (removed 2)" in operator.get("/subscriptions").text
    for name in ("again", "again (removed)", "again (removed 2)"):
        deleted = operator.delete(f"/v1/subscriptions/{name}", params={"purge": True})
        assert deleted.status_code == 204
        assert operator.get(f"/v1/subscriptions/{name}/matches").status_code == 404
