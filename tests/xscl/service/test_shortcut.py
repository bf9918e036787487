"""A query of a known shape is answered as the routes would, without them."""

from __future__ import annotations

from unittest.mock import patch

import httpx
import pytest

from tests.xscl.service.conftest import Running, ok, token_of
from xscl.limiter import TokenBuckets
from xscl.service import shortcut

QUERY = 'short//a[./k="{}"]->v'
PLACE = "/v1/subscriptions/{}"


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return, for each request that could be, whether it was answered on the shorter way."""
    ways: list[bool] = []
    registered = shortcut.Shortcut._registered

    async def noted(*arguments: object) -> object:
        answer = await registered(*arguments)  # type: ignore[arg-type]
        ways.append(answer is not None)
        return answer

    monkeypatch.setattr(shortcut.Shortcut, "_registered", noted)
    return ways


def query(key: object) -> dict[str, object]:
    return {"query": QUERY.format(key), "history": False}


def test_answers_are_those_of_the_routes(operator: httpx.Client, answered: list[bool]) -> None:
    first = operator.put(PLACE.format("short 0"), json=query("x0"))
    second = operator.put(PLACE.format("short 1"), json=query("x1"))
    again = operator.put(PLACE.format("short 1"), json=query("x1"))
    assert answered == [False, True, True]
    assert (first.status_code, second.status_code, again.status_code) == (201, 201, 200)
    shown = first.json() | {"name": "short 1", "query": QUERY.format("x1")}
    assert second.json() == again.json() == shown
    assert operator.get(PLACE.format("short 1")).json() | {"warnings": shown["warnings"]} == shown
    assert shown["warnings"] == ["nothing has come on the stream 'short' yet"]
    assert second.headers.keys() == first.headers.keys()
    counted = operator.get("/v1/metrics").text
    assert 'route="/v1/subscriptions/{name}",status="200"' in counted


def test_tags_are_set_on_the_shorter_way(operator: httpx.Client, answered: list[bool]) -> None:
    operator.put(PLACE.format("short t0"), json=query("t0"))
    tagged = operator.put(PLACE.format("short t1"), json=query("t1") | {"tags": ["b", "a"]})
    kept = operator.put(PLACE.format("short t1"), json=query("t1"))
    assert answered[1:] == [True, True]
    assert tagged.json()["tags"] == kept.json()["tags"] == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"query": QUERY.format("other")}, 409),
        ({"query": QUERY.format("y"), "more": 1}, 422),
        ({"query": "short//a["}, 422),
        ({"query": QUERY.format("y"), "tags": ["a b"]}, 422),
        ([], 422),
    ],
)
def test_what_is_wrong_the_routes_say(
    operator: httpx.Client, answered: list[bool], body: object, status: int
) -> None:
    for number in range(2):
        operator.put(PLACE.format(f"short w{number}"), json=query(number))
    answered.clear()
    answer = operator.put(PLACE.format("short w1"), json=body)
    assert answered == [False]
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_what_the_routes_have_to_say_is_counted_once(
    running: Running, operator: httpx.Client, answered: list[bool]
) -> None:
    with running.client(token_of(operator, "carla")) as carla:
        ok(carla.put("/v1/streams/short", json={}))
        for number in range(2):
            ok(carla.put(PLACE.format(number), json=query(number)))
        answered.clear()
        consume = TokenBuckets[int].consume
        with patch.object(TokenBuckets, "consume", autospec=True, side_effect=consume) as take:
            other = {"query": QUERY.format("other")}
            assert carla.put(PLACE.format(1), json=other).status_code == 409
            assert answered == [False]
            assert take.call_count == 1
