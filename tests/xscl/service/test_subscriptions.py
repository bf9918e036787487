"""Subscriptions over HTTP."""

from __future__ import annotations

import json
import unicodedata

import httpx
import pytest

import xscl.engine.backfills as backfills
import xscl.service.tags as tags_module
from tests.xscl.failing_commits import POINTS
from tests.xscl.service.conftest import code, eventually, ok, send_batch

TWICE = "S//a->x FOLLOWED BY{x=y, 10 s} S//a->y"


def test_put_get_delete(operator: httpx.Client) -> None:
    made = operator.put("/v1/subscriptions/twice", json={"query": TWICE})
    assert made.status_code == 201, made.text
    assert made.json() == {
        **{"name": "twice", "query": TWICE, "language": "xscl", "reads": ["S"], "own": []},
        **{"publishes": None, "template": made.json()["template"], "updates": False, "version": 1},
        **{"paused": False, "tags": [], "history": "none", "stopped": None, "unevaluated": []},
        **{"refused": None, "stories": False, "cost_share": made.json()["cost_share"]},
        "warnings": ["nothing has come on the stream 'S' yet"],
    }
    again = operator.put("/v1/subscriptions/twice", json={"query": TWICE})
    expected = made.json() | {"cost_share": again.json()["cost_share"]}
    assert (again.status_code, again.json()) == (200, expected)
    other = operator.put("/v1/subscriptions/twice", json={"query": "S//b->x"})
    assert code(other) == (409, "name_taken")
    assert ok(operator.get("/v1/subscriptions/twice"))["query"] == TWICE
    assert operator.delete("/v1/subscriptions/twice").status_code == 204
    assert code(operator.get("/v1/subscriptions/twice")) == (404, "unknown_subscription")


DECLARED: dict[str, dict[str, object]] = {
    "/v1/subscriptions/again": {"query": TWICE},
    "/v1/streams/again": {"lateness": "1 h", "attributes": {"price": "float"}},
}


@pytest.mark.parametrize("path", DECLARED)
def test_what_is_declared_as_it_is_already_is_not_written(
    operator: httpx.Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    reached: list[str] = []
    assert operator.put(path, json=DECLARED[path]).status_code == 201
    monkeypatch.setattr(POINTS, reached.append)
    assert operator.put(path, json=DECLARED[path]).status_code == 200
    assert "before_commit" not in reached


def test_a_registration_warns_as_the_command_does(
    alice: httpx.Client, operator: httpx.Client
) -> None:
    query = "bills//order[./total->t] JOIN{t != u, 3 d} bills//invoice[./total->u]"
    ok(alice.put("/v1/streams/bills", json={}))
    send_batch(alice, "bills", {"o1": "<order><total>40</total></order>", "i1": INVOICE})
    eventually(lambda: ok(alice.get("/v1/streams/bills/elements"))["documents"] == 2)
    compared = (
        "t != u compares texts, and values such as '40' and '40.00' were seen: compare numbers with"
        " number(t) != number(u)"
    )
    crossed = "no equality chooses candidates: every pair within the window is tested"
    made = ok(alice.put("/v1/subscriptions/odd", json={"query": query}))
    assert sorted(made["warnings"]) == sorted([compared, crossed])
    again = ok(alice.put("/v1/subscriptions/odd", json={"query": query}))
    assert again["warnings"] == made["warnings"]
    numbers = query.replace("t != u", "number(t) != number(u)")
    changed = ok(alice.patch("/v1/subscriptions/odd", json={"query": numbers}))
    assert changed["warnings"] == [crossed]
    checked = ok(alice.post("/v1/check", json={"query": query}))["warnings"]
    assert [(one["kind"], one["name"]) for one in checked] == [("comparison", "t != u")]
    assert compared in ok(alice.post("/v1/explain", json={"query": query}))["text"]
    page = alice.post("/subscribe/check", data={"query": query})
    assert "compare numbers with number(t) != number(u)" in page.text
    misspelt = "bills//ordre->a FOLLOWED BY{a = b, 1 d} bills//order->b"
    warned = ok(alice.put("/v1/subscriptions/typo", json={"query": misspelt}))["warnings"]
    assert warned == [
        "'ordre' is not in the newest 2 documents of 'bills': did you mean order (1 document)?",
    ]
    ok(operator.put("/v1/streams/billed", json={}))
    ok(operator.post("/v1/documents/billed?id=b1", content=INVOICE))
    eventually(lambda: ok(operator.get("/v1/streams/billed/elements"))["documents"] == 1)
    warned = ok(operator.put("/v1/subscriptions/typo", json={"query": "biled//invoice"}))
    told = "nothing is known of the stream 'biled': did you mean billed (1 document)?"
    assert warned["warnings"] == [told]
    again = ok(operator.put("/v1/subscriptions/typo", json={"query": "biled//invoice"}))
    assert again["warnings"] == warned["warnings"]


INVOICE = "<invoice><total>40.00</total></invoice>"


def test_a_subscription_shows_where_it_was_stopped(operator: httpx.Client) -> None:
    query = "cut//r[./a->x][./a->v] FOLLOWED BY{x = y AND v = w, 1 d} cut//r[./a->y][./a->w]"
    ok(operator.put("/v1/subscriptions/cut", json={"query": query}))
    send_batch(operator, "cut", {f"c{n}": f"<r>{'<a>v</a>' * 20}</r>" for n in range(3)})
    expected = {"documents": 2, "results": 10_000, "incomplete": False}
    eventually(lambda: ok(operator.get("/v1/subscriptions/cut"))["stopped"] == expected)
    explained = ok(operator.get("/v1/subscriptions/cut/explain"))["text"]
    assert "more than 10,000 results with 2 documents, the latest: cut/c2; none" in explained
    page = operator.get("/subscriptions/cut").text
    assert "More than 10,000 matches with each of 2 documents: none" in page
    ok(operator.delete("/v1/subscriptions/cut"))


def test_a_history_begins_with_what_is_kept_unless_it_takes_too_long(
    operator: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_batch(operator, "kept", dict.fromkeys(("k0", "k1"), "<o><a>1</a></o>"))
    asked = {"query": "kept//o->x[./a->a] NEXT{a = b} kept//o->y[./a->b]", "history": False}
    pair = {"query": "kept//o->x[./a->a] JOIN{a = b} kept//o->y[./a->b]"}
    one = {"query": "kept//a->x"}
    eventually(lambda: ok(operator.post("/v1/try", json=one))["total"] == 2)
    ok(operator.put("/v1/subscriptions/kept pair", json=pair))
    ok(operator.put("/v1/subscriptions/kept next", json=asked))
    assert len(ok(operator.get("/v1/subscriptions/kept pair/matches"))["matches"]) == 2
    assert ok(operator.get("/v1/subscriptions/kept next/matches"))["matches"] == []
    monkeypatch.setattr(backfills, "LONGEST", -1.0)
    for name, begun in (("kept late", {"history": True}), ("kept since", {"since": "1 d"})):
        made = ok(operator.put(f"/v1/subscriptions/{name}", json={**one, **begun}))
        assert made["history"] == "failed"
        assert ok(operator.get(f"/v1/subscriptions/{name}/matches"))["matches"] == []
    ok(operator.post("/v1/documents/kept", content=b"<o><a/></o>"))
    at = "/v1/subscriptions/kept since/matches"
    eventually(lambda: len(ok(operator.get(at))["matches"]) == 1)


def test_pages_are_whole_whatever_comes_and_goes(operator: httpx.Client) -> None:
    rows = "".join(f'{{"name": "page-{n:03}", "query": "P//a{n}->x"}}\n' for n in range(25))
    imported = ok(operator.post("/v1/subscriptions:import", content=rows))
    assert imported == {"new": 25, "unchanged": 0}
    seen: list[str] = []
    after = ""
    while True:
        address = f"/v1/subscriptions?limit=10&prefix=page-&after={after}"
        page = ok(operator.get(address))
        seen += [one["name"] for one in page["items"]]
        if page["next"] is None:
            break
        after = page["next"]
        operator.delete(f"/v1/subscriptions/{seen[-1]}")
        operator.put("/v1/subscriptions/page-000-", json={"query": "P//b->x"})
    assert seen == [f"page-{n:03}" for n in range(25)]
    for name in ("page-000-", *seen):
        operator.delete(f"/v1/subscriptions/{name}")


def test_import_is_all_or_nothing(operator: httpx.Client) -> None:
    def send(*rows: str) -> httpx.Response:
        content, kind = "\r\n".join(["name,query", *rows]), {"Content-Type": "text/csv"}
        return operator.post("/v1/subscriptions:import", content=content, headers=kind)

    fine = ["one,I//a->x", '"two","I//a->x JOIN{x=y, 1 h} I//b->y"']
    wrong = send(*fine, "three,I//a[->x")
    assert code(wrong) == (422, "query")
    assert wrong.json()["row"] == 3
    assert code(operator.get("/v1/subscriptions/one")) == (404, "unknown_subscription")
    unbound = send(*fine, '"three","I//a->x JOIN{x=z, 1 h} I//b->y"').json()
    assert (unbound["code"], unbound["row"], unbound["line"]) == ("query", 3, 1)
    assert ok(send(*fine)) == {"new": 2, "unchanged": 0}
    assert ok(send(*fine, "three,I//c->x")) == {"new": 1, "unchanged": 2}
    taken = send("four,I//d->x", "two,I//e->x")
    assert (code(taken), taken.json()["row"]) == ((409, "name_taken"), 2)
    twice = send("five,I//d->x", "five,I//d->x")
    assert (code(twice), twice.json()["row"]) == ((409, "name_taken"), 2)
    for name in ("one", "two", "three"):
        assert operator.delete(f"/v1/subscriptions/{name}").status_code == 204


WRONG_ROWS: dict[str, tuple[tuple[int, bytes], ...]] = {
    "application/jsonl": (
        (1, b'{"name": "a"}'),
        (2, b'{"name": "a", "query": "S"}\n[1]'),
        (2, b'{"name": "a", "query": "S"}\n{"name": 1, "query": "S"}'),
        *((1, b"nonsense"), (1, b"[" * 100_000)),
    ),
    "text/csv": (
        *((1, b"name\na"), (2, b"name,query\na,S\nb,S,S"), (1, b'name,query\n"a,S')),
        (1, b"name,query\na,"),
    ),
}


@pytest.mark.parametrize("kind", WRONG_ROWS)
def test_a_wrong_row_is_named(operator: httpx.Client, kind: str) -> None:
    for row, body in WRONG_ROWS[kind]:
        headers = {"Content-Type": kind}
        answer = operator.post("/v1/subscriptions:import", content=body, headers=headers)
        assert (*code(answer), answer.json()["row"]) == (422, "wrong_row", row)


def test_a_body_that_came_as_a_form_is_told_from_one_that_is_wrong(operator: httpx.Client) -> None:
    body = b'{"query": "S//a"}'
    kind = {"Content-Type": "application/x-www-form-urlencoded"}  # what curl -d sends
    told = operator.put("/v1/subscriptions/form", content=body, headers=kind).json()
    assert told["code"] == "invalid_request"
    assert told["hint"].startswith("send 'Content-Type: application/json'")
    kind = {"Content-Type": "application/json"}
    told = operator.put("/v1/subscriptions/form", content=b"[]", headers=kind).json()
    assert told["hint"] == "/docs says what this address takes"


@pytest.mark.parametrize("what", ["subscriptions", "feeds"])
@pytest.mark.parametrize("body", [b"", b" \n"])
def test_an_import_of_nothing_is_refused(operator: httpx.Client, what: str, body: bytes) -> None:
    answer = operator.post(f"/v1/{what}:import", content=body)
    assert code(answer) == (422, "empty_list")
    assert "a row is" in answer.json()["hint"] or "a line" in answer.json()["hint"]


def test_a_subscription_is_edited_paused_renamed_and_purged(operator: httpx.Client) -> None:
    path = "/v1/subscriptions/edited"
    ok(operator.put(path, json={"query": "E//a->x"}))

    def sent(number: int) -> None:
        ok(operator.post(f"/v1/documents/E?id=e{number}", content=b"<a/>"))

    def found(at: str = path, **asked: int) -> list[tuple[int, list[str]]]:
        page = ok(operator.get(f"{at}/matches", params={"after": 0, **asked}))
        return [(match["version"], match["documents"]) for match in page["matches"]]

    sent(1)
    eventually(lambda: found() == [(1, ["e1"])])
    assert ok(operator.patch(path, json={"paused": True}))["paused"] is True
    sent(2)
    ok(operator.put("/v1/subscriptions/probe", json={"query": "E//a->x", "since": "1 d"}))
    eventually(lambda: len(found("/v1/subscriptions/probe")) == 2)
    changed = ok(operator.patch(path, json={"paused": False, "query": "E//a->y"}))
    assert (changed["version"], changed["query"], changed["paused"]) == (2, "E//a->y", False)
    sent(3)
    eventually(lambda: found() == [(1, ["e1"]), (2, ["e3"])])
    assert found(version=2) == [(2, ["e3"])]
    assert operator.patch(path, json={"query": "E//a->"}).status_code == 422
    assert code(operator.patch(path, json={"name": "probe"})) == (409, "name_taken")
    ok(operator.patch(path, json={"name": "renamed"}))
    assert operator.get(path).status_code == 404
    renamed = "/v1/subscriptions/renamed"
    versions = ok(operator.get(f"{renamed}/versions"))
    assert [one["query"] for one in versions] == ["E//a->x", "E//a->y"]
    assert operator.delete(renamed).status_code == 204
    assert found(renamed) == [(1, ["e1"]), (2, ["e3"])]
    removed = ok(operator.get("/v1/subscriptions:removed"))
    assert [one["version"] for one in removed if one["name"] == "renamed"] == [2]
    assert operator.delete(renamed, params={"purge": True}).status_code == 204
    assert operator.get(f"{renamed}/matches").status_code == 404
    removed = ok(operator.get("/v1/subscriptions:removed"))
    assert "renamed" not in [one["name"] for one in removed]
    assert operator.delete("/v1/subscriptions/probe", params={"purge": True}).status_code == 204


def test_subscriptions_are_filtered_by_tags_which_follow_a_name_and_leave_with_it(
    operator: httpx.Client, alice: httpx.Client
) -> None:
    body = {"query": "T//a->x", "tags": ["sea", "daily", "sea"]}
    assert ok(operator.put("/v1/subscriptions/tagged", json=body))["tags"] == ["daily", "sea"]
    again = ok(operator.put("/v1/subscriptions/tagged", json={"query": "T//a->x"}))
    assert again["tags"] == ["daily", "sea"]
    row = {"name": "tagged-2", "query": "T//b->x", "tags": ["sea"]}
    ok(operator.post("/v1/subscriptions:import", content=json.dumps(row).encode()))
    ok(alice.put("/v1/streams/T", json={}))
    ok(alice.put("/v1/subscriptions/hers", json={"query": "T//a->x", "tags": ["sea"]}))

    def listed(client: httpx.Client, tag: str) -> list[str]:
        found = ok(client.get("/v1/subscriptions", params={"tag": tag}))["items"]
        return [one["name"] for one in found]

    def counts() -> dict[str, int]:
        found = ok(operator.get("/v1/subscriptions:tags"))
        return {one["tag"]: one["subscriptions"] for one in found}

    assert listed(operator, "sea") == ["tagged", "tagged-2"]
    assert listed(alice, "sea") == ["hers"]
    assert counts() == {"daily": 1, "sea": 2}
    ok(operator.patch("/v1/subscriptions/tagged", json={"name": "new name"}))
    edited = ok(operator.patch("/v1/subscriptions/new name", json={"query": "T//c->x"}))
    assert (edited["version"], edited["tags"]) == (2, ["daily", "sea"])
    changed = ok(operator.patch("/v1/subscriptions/new name", json={"tags": ["weekly"]}))
    assert (changed["version"], changed["tags"]) == (2, ["weekly"])
    for name in ("new name", "tagged-2"):
        assert operator.delete(f"/v1/subscriptions/{name}").status_code == 204
    assert counts() == {}
    back = ok(operator.put("/v1/subscriptions/new name", json={"query": "T//a->x"}))
    assert back["tags"] == []
    operator.delete("/v1/subscriptions/new name", params={"purge": True})


@pytest.mark.parametrize("tag", ["a b", "a,b", "", "x" * 51, "\n"])
def test_a_wrong_tag_is_refused_before_anything_changes(operator: httpx.Client, tag: str) -> None:
    body = {"query": "T//a->x", "tags": [tag]}
    assert code(operator.put("/v1/subscriptions/wrong-tag", json=body)) == (422, "wrong_tag")
    assert operator.get("/v1/subscriptions/wrong-tag").status_code == 404


def test_a_subscription_has_a_bound_of_tags(operator: httpx.Client) -> None:
    tags = [f"t{number}" for number in range(tags_module.MOST)]
    path = "/v1/subscriptions/many-tags"
    assert len(ok(operator.put(path, json={"query": "T//a->x", "tags": tags}))["tags"]) == 20
    assert operator.patch(path, json={"tags": [*tags, "more"]}).status_code == 422
    assert operator.delete(path).status_code == 204


# -- Bad queries (group Q): refused clearly, and nobody else is hurt ------------------------


def put(user: httpx.Client, name: str, query: str) -> httpx.Response:
    """Register a query, without the history of what other tests pushed."""
    return user.put(f"/v1/subscriptions/{name}", json={"query": query, "history": False})


def test_q1_counting_within_counting(operator: httpx.Client) -> None:
    """Steps are counted while they are done, so the document of 3,000 elements is given up."""
    query = "counting//a[count(//*[count(..//*[count(..//*)>0])>0]) > 0]->x"
    assert put(operator, "q1", query).status_code == 201
    ok(operator.post("/v1/documents/counting", content="<a>" + "<b/>" * 3_000 + "</a>"))
    shown = eventually(lambda: ok(operator.get("/v1/subscriptions/q1"))["unevaluated"])
    assert "200,000 steps" in shown[0]["reason"]
    assert ok(operator.get("/v1/subscriptions/q1/matches"))["matches"] == []


def test_q2_more_than_a_query_may_have(operator: httpx.Client) -> None:
    assert code(put(operator, "q2", "S//a" + " " * 1_000_000)) == (422, "invalid_request")


def test_q8_names_of_any_letters(operator: httpx.Client) -> None:
    """Names are the same if their characters are; nothing is made of one that looks alike."""
    composed = "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    names = [
        composed,
        unicodedata.normalize("NFD", composed),
        "\N{CYRILLIC SMALL LETTER ES}afe",
        "\N{GRINNING FACE} <b>&amp;",
    ]
    for number, name in enumerate(names):
        assert put(operator, name, f"S//a{number}->x").status_code == 201
    unseen = put(operator, "\N{RIGHT-TO-LEFT MARK}name", "S//a->x")
    assert unseen.status_code == 422, "a character that nobody sees"
    for number, name in enumerate(names):
        shown = ok(operator.get(f"/v1/subscriptions/{name}"))
        assert (shown["name"], shown["query"]) == (name, f"S//a{number}->x")
        assert operator.delete(f"/v1/subscriptions/{name}").status_code == 204
    wrong = put(operator, "nul", "S//a\0->x")
    assert (*code(wrong), wrong.json()["line"], wrong.json()["column"]) == (422, "query", 1, 5)
