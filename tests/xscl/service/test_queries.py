"""Bad queries through the running service (group Q): refused clearly, and nobody else is hurt."""

from __future__ import annotations

import unicodedata

import httpx

from tests.xscl.service.conftest import code, eventually, ok


def put(user: httpx.Client, name: str, query: str) -> httpx.Response:
    """Register a query, without the history of what other tests pushed."""
    return user.put(f"/v1/subscriptions/{name}", json={"query": query, "history": False})


def refused(answer: httpx.Response) -> str:
    """Return the code of a query that is refused with its place."""
    status, name = code(answer)
    assert status == 422, answer.text
    problem = answer.json()
    assert problem["line"] >= 1
    assert problem["column"] >= 1
    assert len(answer.text) < 5_000
    return name


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
    assert refused(put(operator, "nul", "S//a\0->x")) == "query"
