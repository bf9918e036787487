"""Two users cannot see each other's anything (row W8): all addresses are walked.

One user plants a word in everything that she can name or send.  Another one asks every address
that there is, by the OpenAPI document: what he gets, errors included, must not have the word, nor
the names that the engine has for what is hers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.examples import usually
from tests.xscl.service.conftest import Running, code, eventually, ok

WORD = "quagga"
FOREIGN = re.compile(r"_\d+\.")
_SPIES = itertools.count()


@pytest.fixture(scope="module")
def planted(running: Running) -> dict[str, Any]:
    """The objects of alice: the operator's answers show that they exist."""
    with running.user(WORD + "-user") as alice:
        ok(alice.put(f"/v1/streams/{WORD}", json={"lateness": "0 s"}))
        query = f"{WORD}//{WORD}->x FOLLOWED BY{{x=y, 10 s}} {WORD}//{WORD}->y"
        ok(alice.put(f"/v1/subscriptions/{WORD}", json={"query": query}))
        made = f"SELECT <{WORD}>{{x}}</{WORD}> FROM {WORD}//{WORD}->x PUBLISH {WORD}-out"
        ok(alice.put(f"/v1/subscriptions/{WORD}-made", json={"query": made}))
        hook = {"kind": "webhook", "url": f"http://8.8.8.8/{WORD}"}
        made_hook = ok(alice.post(f"/v1/subscriptions/{WORD}/endpoints", json=hook))
        url = f"https://{WORD}.example/feed.atom"
        new = {"url": url, "stream": f"{WORD}-feed", "keep": True}
        feed = ok(alice.post("/v1/feeds", json=new))
        for number, second in enumerate((1, 20, 2)):  # the last one comes late
            name, text = f"{WORD}-{number}", f"<{WORD}>{WORD}</{WORD}>"
            address = f"/v1/documents/{WORD}?id={name}&time={second}000000"
            ok(alice.post(address, content=text))
        tried = {"query": f"{WORD}//{WORD}->x"}
        eventually(lambda: ok(alice.post("/v1/try", json=tried))["total"] == 3)
        broken = alice.post(f"/v1/documents/{WORD}", params={"id": f"{WORD}-broken"}, content=b"<")
        assert broken.status_code == 422
        eventually(lambda: f"{WORD}-broken" in alice.get("/v1/rejected").text)
        assert all(WORD in alice.get(f"/v1/{name}").text for name in ("subscriptions", "streams"))
        assert ok(alice.get("/v1/late"))
    # Equal work is shared: that the other user has it too changes nothing for him.
    keys = {"key": feed["key"], "hook": made_hook["id"]}
    return {**keys, "query": query, "made": made}


@pytest.fixture
def spy(running: Running, operator: httpx.Client) -> Iterator[httpx.Client]:
    """Another user, who has things of his own; what he writes has her word in it from then on."""
    name = f"spy{next(_SPIES)}"
    with running.user(name) as client:
        ok(operator.put(f"/v1/accounts/{name}/quota", json={}))  # he asks thousands of times
        ok(client.put("/v1/streams/mine", json={}))
        ok(client.put("/v1/subscriptions/mine", json={"query": "mine//a->x"}))
        yield client


def asked(
    api: dict[str, Any], planted: dict[str, Any], each: bool
) -> Iterator[tuple[str, str, Any]]:
    """Yield method, path and body of requests: every operation, with her names in it and ours.

    A path is asked with `each` body, or with one in turn.
    """
    bodies: list[Any] = [
        {"query": planted["query"]},
        {"query": f"{WORD}//a->x", "documents": [f"{WORD}-0"]},
        {"query": planted["query"], "documents": [f"{WORD}-0", f"{WORD}-1"]},
        {"subscription": WORD},
        {"subscription": WORD, "documents": [f"{WORD}-0"]},
        {"user": f"{WORD}-user"},
        {"tags": [WORD]},
        {"url": f"https://{WORD}.example/feed.atom", "tags": [WORD]},
        {},
    ]
    turn = itertools.cycle(bodies)
    words = [WORD, f"{WORD}-made", f"{WORD}-0", planted["key"], "_1.x", "1", "mine", "00000001"]
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            if operation["operationId"].startswith(("create_", "docs")):
                continue
            names = re.findall(r"{(\w+)}", path)
            fillings = words if names else [""]
            for word in fillings:
                filled = re.sub(r"{\w+}", word, path)
                if "requestBody" in operation and method in ("put", "post", "patch"):
                    yield from ((method, filled, one) for one in (bodies if each else [next(turn)]))
                else:
                    yield method, filled, None


@pytest.mark.parametrize("each", usually([False, True], False), ids=["in turn", "each"])
def test_w8_nothing_of_one_user_is_in_an_answer_to_another(
    each: bool, operator: httpx.Client, spy: httpx.Client, planted: dict[str, Any]
) -> None:
    api = ok(operator.get("/v1/openapi.json"))
    requests = list(asked(api, planted, each))
    statuses: dict[int, int] = {}
    for method, path, _ in requests:
        if method != "get":
            continue
        with spy.stream("GET", path) as response:
            statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
            assert response.status_code < 500, path
            if response.headers["content-type"].startswith("text/event-stream"):
                continue
            text = response.read().decode("utf-8", "replace")
        if WORD in path:
            refused = (403,) if path.startswith("/v1/accounts/") else (400, 404, 422)
            assert response.status_code in refused, (path, text)
        elif "_1." not in path:
            assert WORD not in text, (path, text)
            assert FOREIGN.search(text) is None, (path, text)
    assert statuses[404] > 10
    assert statuses[200] > 5
    for method, path, body in requests:
        if method == "get" or "mine" in path:
            continue
        response = spy.request(method.upper(), path, json=body)
        assert response.status_code < 500, (method, path, body, response.text)
        if "_1." not in path:
            assert FOREIGN.search(response.text) is None, (method, path, body, response.text)
        if WORD not in f"{path}{body}":
            assert WORD not in response.text, (method, path, body, response.text)


def test_w8_lists_and_questions_of_another_user_have_nothing_of_hers(
    spy: httpx.Client, planted: dict[str, Any]
) -> None:
    """Even when he has asked for the same, by the same names."""
    ok(spy.put(f"/v1/streams/{WORD}", json={}))
    ok(spy.put(f"/v1/subscriptions/{WORD}", json={"query": planted["query"]}))
    ok(spy.put(f"/v1/subscriptions/{WORD}-made", json={"query": planted["made"]}))
    for name in (WORD, f"{WORD}-made"):
        assert ok(spy.post("/v1/try", json={"subscription": name}))["total"] == 0
        text = ok(spy.get(f"/v1/subscriptions/{name}/explain"))["text"]
        assert "shared by 1 equal subscription" in text
        assert FOREIGN.search(text) is None
    for number in range(3):
        asked = {"subscription": f"{WORD}-made", "documents": [f"{WORD}-{number}"]}
        answer = spy.post("/v1/why", json=asked)
        assert answer.json()["code"] == "unknown_document"
    assert ok(spy.get("/v1/late")) == []
    rejected = str(ok(spy.get("/v1/rejected"))["items"])  # he has some of his own
    assert f"{WORD}-broken" not in rejected
    assert ok(spy.get("/v1/feeds"))["items"] == []
    assert ok(spy.get(f"/v1/subscriptions/{WORD}/endpoints")) == []
    hook = f"/v1/subscriptions/{WORD}/endpoints/{planted['hook']}"
    for method, path in (
        *(("GET", hook), ("PATCH", hook), ("DELETE", hook), ("GET", f"{hook}/letters")),
        *(("POST", f"{hook}:rotate"), ("POST", f"{hook}:replay"), ("POST", f"{hook}:confirm")),
    ):
        assert code(spy.request(method, path, json={})) == (404, "unknown_endpoint")
    assert f"{WORD}-user" not in spy.get("/v1/tokens").text
