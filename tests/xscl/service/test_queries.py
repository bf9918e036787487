"""Bad queries through the running service (group Q): refused clearly, and nobody else is hurt."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import httpx
import pytest

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


@pytest.fixture(autouse=True)
def healthy(operator: httpx.Client) -> Iterator[None]:
    """After every attack the service answers, before the client gives up."""
    yield
    assert operator.get("/v1/health").status_code == 200


def test_q1_counting_within_counting(operator: httpx.Client) -> None:
    """Steps are counted while they are done, so the document of 3,000 elements is given up."""
    query = "counting//a[count(//*[count(..//*[count(..//*)>0])>0]) > 0]->x"
    assert put(operator, "q1", query).status_code == 201
    ok(operator.post("/v1/documents/counting", content="<a>" + "<b/>" * 3_000 + "</a>"))
    shown = eventually(lambda: ok(operator.get("/v1/subscriptions/q1"))["unevaluated"])
    assert "200,000 steps" in shown[0]["reason"]
    assert ok(operator.get("/v1/subscriptions/q1/matches"))["matches"] == []


@pytest.mark.parametrize(
    "query",
    [
        " or ".join(["S//a[.//*"] + [".//*"] * 300) + "]->x",
        "S" + "/a" * 20_000 + "->x",
        "(" * 100_000 + "S//a" + ")" * 100_000,
        "S//a[" + "(" * 100_000 + "./b" + ")" * 100_000 + "]->x",
        "S//a[./b = '" + "x" * 999_000 + "']->x",
        "S//a[" + " or ".join(f"./b = '{n}'" for n in range(1_000)) + "]->x",
    ],
    ids=["union", "steps", "parentheses", "brackets", "long", "arms"],
)
def test_q2_too_complex(operator: httpx.Client, query: str) -> None:
    answer = put(operator, "q2", query)
    if answer.status_code == 201:  # within the limits, and bounded
        assert operator.delete("/v1/subscriptions/q2").status_code == 204
    else:
        assert refused(answer) == "query_too_complex"


def test_q2_more_than_a_query_may_have(operator: httpx.Client) -> None:
    assert code(put(operator, "q2", "S//a" + " " * 1_000_000)) == (422, "invalid_request")


@pytest.mark.parametrize(
    "condition",
    [
        "re:test(., '(a+)+$')",
        r"matches(., '(a+)+\1$')",
        "document('http://127.0.0.1:1/x') = 'x'",
        "doc('file:///etc/passwd') = 'x'",
        "unparsed-text('/etc/passwd') = 'x'",
        "environment-variable('HOME') = 'x'",
    ],
)
def test_q3_q4_no_patterns_of_characters_and_nothing_from_elsewhere(
    operator: httpx.Client, condition: str
) -> None:
    assert refused(put(operator, "q4", f"S//a[{condition}]->x")).startswith("query")


@pytest.mark.parametrize(
    "query",
    [
        "S//a->x FOLLOWED BY{x=y, 0 s} S//a->y",
        "S//a->x FOLLOWED BY{x=y, -1 s} S//a->y",
        "S//a->x FOLLOWED BY{x=y, 1000000000000 s} S//a->y",
        "S//a->x FOLLOWED BY{x=y, 10} S//a->y",
        "S//a->x JOIN{x=y, 1 h} S//a->y",
        "S//a->x JOIN{1 h} T//b->y",
        "S//a->x JOIN{" + " or ".join(["x=y"] * 1_000) + ", 1 h} T//b->y",
    ],
    ids=["zero", "negative", "long", "no unit", "itself", "all pairs", "arms"],
)
def test_q6_windows_and_joins(operator: httpx.Client, query: str) -> None:
    answer = put(operator, "q6", query)
    if answer.status_code == 201:
        sent = ok(operator.post("/v1/documents/S", content=b"<a>1</a>"))
        assert sent["stream"] == "S"
        assert operator.delete("/v1/subscriptions/q6").status_code == 204
    else:
        assert refused(answer).startswith("query")


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
    assert unseen.status_code == 400, "a character that nobody sees"
    for number, name in enumerate(names):
        shown = ok(operator.get(f"/v1/subscriptions/{name}"))
        assert (shown["name"], shown["query"]) == (name, f"S//a{number}->x")
        assert operator.delete(f"/v1/subscriptions/{name}").status_code == 204
    for name in ("nul%00", "line%0Aend", "%C2%85", "%20blank", "%E2%80%A8"):
        assert code(operator.put(f"/v1/subscriptions/{name}", json={"query": "S//a"}))[0] == 400
    assert refused(put(operator, "nul", "S//a\0->x")) == "query"
