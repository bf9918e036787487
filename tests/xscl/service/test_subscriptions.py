"""Subscriptions over HTTP."""

from __future__ import annotations

import httpx

TWICE = "S//a->x FOLLOWED BY{x=y, 10 s} S//a->y"


def test_health_asks_for_nothing(operator: httpx.Client) -> None:
    assert operator.get("/v1/health").json() == {"status": "ok"}


def test_put_get_delete(operator: httpx.Client) -> None:
    made = operator.put("/v1/subscriptions/twice", json={"query": TWICE})
    assert made.status_code == 201, made.text
    assert made.json() == {
        "name": "twice",
        "query": TWICE,
        "language": "xscl",
        "reads": ["S"],
        "own": [],
        "publishes": None,
        "updates": False,
    }
    again = operator.put("/v1/subscriptions/twice", json={"query": TWICE})
    assert (again.status_code, again.json()) == (200, made.json())
    other = operator.put("/v1/subscriptions/twice", json={"query": "S//b->x"})
    assert (other.status_code, other.json()["code"]) == (409, "name_taken")
    assert operator.get("/v1/subscriptions/twice").json() == made.json()
    assert operator.delete("/v1/subscriptions/twice").status_code == 204
    gone = operator.get("/v1/subscriptions/twice")
    assert (gone.status_code, gone.json()["code"]) == (404, "unknown_subscription")
    assert gone.headers["content-type"] == "application/problem+json"


def test_a_wrong_query_has_its_place(operator: httpx.Client) -> None:
    wrong = operator.put("/v1/subscriptions/bad", json={"query": "S//a->x FOLLOWED"})
    problem = wrong.json()
    assert (wrong.status_code, problem["code"]) == (422, "query")
    assert (problem["line"], problem["column"]) == (1, 17)
