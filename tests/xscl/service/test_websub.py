"""WebSub: a hub that a feed names makes its poll due when it sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.hub import PUBLIC, Hub, hub_running
from tests.plain_http import NO_CERTIFICATES
from tests.xscl.polling.scripted import rss
from tests.xscl.service.conftest import Running, code, eventually, ok, serving
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with hub_running() as found:
        yield found


@pytest.fixture(scope="module")
def running(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a public address, which follows the feed of the hub."""
    place = DataDirectory(tmp_path_factory.mktemp("service") / "data")
    allowed = (hub.address.removeprefix("http://"),)
    with serving(place, fetching=PollSettings(allowed), public_url=PUBLIC) as found:
        hub.service = found.address
        yield found


@pytest.fixture(scope="module")
def key(operator: httpx.Client, hub: Hub) -> str:
    """The key of the feed, whose lease is active.

    The service shows an active lease before the hub has read its confirmation.
    """
    added = ok(operator.post("/v1/feeds", json={"url": hub.feed, "stream": "news"}))
    eventually(lambda: shown(operator, added["key"])["push"] == "active")
    eventually(lambda: hub.confirmed)
    return str(added["key"])


def shown(operator: httpx.Client, key: str) -> dict[str, Any]:
    found: dict[str, Any] = ok(operator.get(f"/v1/feeds/{key}"))
    return found


def test_a_hub_is_asked_confirmed_and_shown(operator: httpx.Client, hub: Hub, key: str) -> None:
    assert hub.form["hub.mode"] == "subscribe"
    assert hub.form["hub.topic"] == hub.feed
    assert len(hub.form["hub.secret"]) == 64
    assert (hub.confirmed[0].status_code, hub.confirmed[0].text) == (200, "a<b")
    assert hub.confirmed[0].headers["content-type"].startswith("text/plain")
    found = shown(operator, key)
    assert (found["hub"], found["push_note"]) == (f"{hub.address}/hub", None)
    assert found["push_until"] > found["polled"]
    assert "sends what is new until" in operator.get(f"/feeds/{key}").text


def test_what_is_sent_makes_the_poll_due(operator: httpx.Client, hub: Hub, key: str) -> None:
    before = shown(operator, key)
    for method in ("sha1", "sha512"):
        assert hub.send(rss("new"), method).status_code == 202
    after = shown(operator, key)
    assert after["pushes"] == before["pushes"] + 2
    assert before["polled"] < after["next_poll"] < before["next_poll"]


@pytest.mark.parametrize("secret", ["", "wrong"])
def test_what_is_not_signed_is_refused(
    operator: httpx.Client, hub: Hub, key: str, secret: str
) -> None:
    before = shown(operator, key)
    assert code(hub.send(rss("forged"), secret=secret)) == (403, "push_signature")
    unsigned = httpx.post(
        hub.callback(), content=rss("forged"), trust_env=False, verify=NO_CERTIFICATES
    )
    assert code(unsigned) == (403, "push_signature")
    assert shown(operator, key)["pushes"] == before["pushes"]


def test_strangers_learn_nothing(running: Running, hub: Hub, key: str) -> None:
    other = f"{running.address}/websub/{'0' * 64}"
    query = {"hub.mode": "subscribe", "hub.topic": hub.feed, "hub.challenge": "c"}
    assert code(httpx.get(other, params=query)) == (410, "unknown_callback")
    assert code(httpx.post(other, content=b"x")) == (410, "unknown_callback")
    assert code(httpx.post(other, content=b"x" * 20_000)) == (413, "body_too_large")
    assert code(hub.tell(**{"hub.topic": "http://other.example/"})) == (404, "unknown_subscription")
    assert code(hub.tell("unsubscribe")) == (404, "unknown_subscription")


def test_content_has_a_limit(hub: Hub, key: str) -> None:
    assert code(hub.send(bytes(10_000_001))) == (413, "body_too_large")


def test_requests_to_a_callback_are_limited(hub: Hub, key: str) -> None:
    answers = (hub.tell(**{"hub.topic": "other"}) for _ in range(1_000))
    limited = next(one for one in answers if one.status_code != 404)  # one more is allowed a second
    assert code(limited) == (429, "too_many_requests")
    assert int(limited.headers["retry-after"]) >= 1
