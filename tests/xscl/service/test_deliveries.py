"""Endpoints over HTTP, and matches page by page."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_args

import httpx
import pytest

from tests.project import ROOT
from tests.waiting import PATIENCE, beside
from tests.xscl.delivery.receiver import Receiver, is_signed, status
from tests.xscl.service.conftest import Running, code, eventually, ok, serving
from tests.xscl.service.test_events import kept, send, subscribed
from xscl.delivery.channels.mail import MailServer
from xscl.delivery.endpoint import CHANNELS
from xscl.engine.queries import EngineQueries
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings
from xscl.service.routes import deliveries


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Running]:
    """A service that may reach the receiver."""
    fetching = PollSettings((f"127.0.0.1:{receiver.port}",))
    home = DataDirectory(tmp_path_factory.mktemp("service") / "data")
    with serving(home, fetching=fetching, mail=MailServer("127.0.0.1", 9)) as found:
        yield found


def made(client: httpx.Client, at: str, **wanted: Any) -> dict[str, Any]:
    return dict(ok(client.post(f"{at}/endpoints", json=wanted)))


def test_a_webhook_from_its_making_to_its_end(operator: httpx.Client, receiver: Receiver) -> None:
    at = subscribed(operator, "hooked")
    endpoint = made(operator, at, kind="webhook", url=receiver.url("/hooked"))
    one = f"{at}/endpoints/{endpoint['id']}"
    assert endpoint["secret"].startswith("whsec_")
    assert "secret" not in operator.get(one).json()
    send(operator, 1)
    eventually(lambda: len(receiver.at("/hooked")) == 1)
    (got,) = receiver.at("/hooked")
    assert is_signed(endpoint["secret"], got)
    assert [got.id] == kept(operator, at)

    new = operator.post(f"{one}:rotate").json()["secret"]
    assert operator.patch(one, json={"state": "paused"}).json()["state"] == "paused"
    send(operator, 2)
    eventually(lambda: len(kept(operator, at)) == 2)
    assert operator.patch(one, json={"state": "active"}).json()["state"] == "active"
    eventually(lambda: len(receiver.at("/hooked")) == 2)
    got = receiver.at("/hooked")[1]
    assert is_signed(new, got)
    assert is_signed(endpoint["secret"], got)

    moved = operator.patch(one, json={"url": receiver.url("/moved"), "grouped": False})
    assert moved.json()["to"]["url"] == receiver.url("/moved")
    assert moved.json()["to"]["grouped"] is False
    send(operator, 3)
    eventually(lambda: len(receiver.at("/moved")) == 1)
    listed = operator.get(f"{at}/endpoints").json()
    assert [(e["id"], e["state"], e["failures"]) for e in listed] == [(endpoint["id"], "active", 0)]
    assert operator.delete(one).status_code == 204
    assert operator.get(one).status_code == 404
    assert operator.delete(at).status_code == 204


def test_dead_letters_are_listed_and_tried_again(
    operator: httpx.Client, receiver: Receiver
) -> None:
    at = subscribed(operator, "gone")
    receiver.does("/gone", status(410))
    one = f"{at}/endpoints/{made(operator, at, kind='webhook', url=receiver.url('/gone'))['id']}"
    send(operator, 10)
    eventually(lambda: operator.get(one).json()["state"] == "disabled")
    assert "410" in operator.get(one).json()["note"]
    assert code(operator.post(f"{one}:replay", json={})) == (409, "endpoint_not_active")
    assert operator.get(f"{one}/letters").json() == []
    receiver.does("/gone", status(204))
    operator.patch(one, json={"state": "active"})
    eventually(lambda: len(receiver.at("/gone")) == 2)
    assert len(set(receiver.ids("/gone"))) == 1
    assert operator.post(f"{one}:replay", json={}).json() == {"letters": 0}
    assert operator.post(f"{one}:replay").json() == {"letters": 0}


NO_ENDPOINTS: dict[str, tuple[dict[str, Any], ...]] = {
    "url_private": ({"kind": "webhook", "url": "http://10.0.0.1/"},),
    "url_port": ({"kind": "webhook", "url": "http://example.org:6379/"},),
    "url_scheme": ({"kind": "webhook", "url": "file:///etc/passwd"},),
    "url_invalid": ({"kind": "webhook", "url": "http://a\\@b/"},),
    "query": ({"kind": "mail", "to": "a@b", "every": "soon"},),
    "invalid_request": (
        {"kind": "webhook", "url": "http://8.8.8.8/", "secret": "short"},
        *({"kind": "mail", "to": to} for to in ("a@b, c@d", "a@b\r\nBcc: c@d")),
        {"kind": "mail", "to": "a@b", "every": "8 d"},
        *({"kind": "file", "name": "x", **more} for more in ({"other": 1}, {"after": -1})),
        *({"kind": "file", "name": "../state.sqlite"}, {"kind": "pigeon"}),
    ),
}


@pytest.mark.parametrize("reason", NO_ENDPOINTS)
def test_w1_w5_what_cannot_be_delivered_to_is_refused(operator: httpx.Client, reason: str) -> None:
    at = subscribed(operator, "refusing")
    for wanted in NO_ENDPOINTS[reason]:
        assert code(operator.post(f"{at}/endpoints", json=wanted)) == (422, reason)
    assert operator.get(f"{at}/endpoints").json() == []


def test_an_endpoint_without_a_kind_is_told_so(operator: httpx.Client) -> None:
    told = operator.post(f"{subscribed(operator, 'kindless')}/endpoints", json={"name": "x"}).json()
    assert told["detail"] == "body: the field 'kind' is missing"


def test_a_webhook_does_not_begin_after_what_is_yet_to_come(operator: httpx.Client) -> None:
    at = subscribed(operator, "ahead")
    newest = made(operator, at, kind="file", name="newest.jsonl")["position"]
    ahead = {"kind": "file", "name": "ahead.jsonl", "after": newest + 1_000}
    refused = operator.post(f"{at}/endpoints", json=ahead)
    assert code(refused) == (422, "position_ahead")
    assert "leave `after` out" in refused.json()["hint"]
    assert made(operator, at, **ahead | {"after": newest})["position"] == newest


def test_w19_secrets_are_shown_once(
    running: Running, operator: httpx.Client, receiver: Receiver
) -> None:
    at = subscribed(operator, "secret")
    url = receiver.url("/secret?token=s3cr3t").replace("//", "//me:pa55@")
    endpoint = made(operator, at, kind="webhook", url=url)
    assert "s3cr3t" not in str(endpoint["to"])
    one = f"{at}/endpoints/{endpoint['id']}"
    answers = [
        operator.get(path).text
        for path in (one, f"{at}/endpoints", f"{one}/letters", at, "/v1/metrics")
    ]
    backup = running.home.path.parent / "copy.xscl"
    assert running.service.app is not None
    running.service.app.engine.backup(backup)
    assert backup.stat().st_size > 1_000
    assert (running.home.path / "secrets.json").stat().st_mode & 0o077 == 0
    files = running.files()
    assert len(files.pop("secrets.json")) > 0
    texts = [text.encode() for text in answers] + [backup.read_bytes(), *files.values()]
    for hidden in (endpoint["secret"].removeprefix("whsec_"), "s3cr3t", "pa55"):
        assert not any(hidden.encode() in text for text in texts)


def test_pages_have_limits(operator: httpx.Client) -> None:
    at = subscribed(operator, "limited")
    for query in ("limit=0", "limit=1001", "after=-1", "before=x", "after=1" + "0" * 20):
        assert code(operator.get(f"{at}/matches?{query}")) == (422, "invalid_request")


def test_c4_what_is_cut_at_the_end_is_told_so(
    place: DataDirectory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("xscl.service.server.GRACE", 0.2)
    began, over = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        began.set()
        over.wait(PATIENCE)

    monkeypatch.setattr(EngineQueries, "trial", hang)
    asked = {"query": "feeds//a->x"}
    with (
        serving(place) as running,
        running.client() as client,
        beside(lambda: client.post("/v1/try", json=asked), until=over) as (asking,),
    ):
        assert began.wait(PATIENCE)
        running.service.stop()
        answer = asking.result(PATIENCE)
    assert code(answer) == (503, "stopping")
    assert "Traceback" not in caplog.text


def test_c4_the_service_ends_while_a_webhook_does_not_answer(
    place: DataDirectory, receiver: Receiver
) -> None:
    fetching = PollSettings((f"127.0.0.1:{receiver.port}",))
    with serving(place, fetching=fetching) as running, running.client() as client:
        at = subscribed(client, "stuck")
        endpoint = made(client, at, kind="webhook", url=receiver.does("/stuck", "hang"))
        send(client, 1)
        eventually(lambda: len(receiver.at("/stuck")) == 1)
    assert place.holder() is None
    receiver.does("/stuck", status(204))
    with serving(place, fetching=fetching) as running, running.client() as client:
        eventually(lambda: len(receiver.at("/stuck")) == 2)
        one = f"{at}/endpoints/{endpoint['id']}"
        eventually(lambda: client.get(one).json()["position"] == 1)
    assert len(set(receiver.ids("/stuck"))) == 1


def test_users_cannot_tell_inner_names_from_unknown_ones(place: DataDirectory) -> None:
    async def resolve(host: str, port: int) -> tuple[str, ...]:
        if host not in known:
            raise OSError("no such name")
        return known[host]

    known = {
        "public.example": ("192.0.1.1",),
        "inner.example": ("10.0.0.1",),
        "metadata.example": ("8.8.8.8", "fd00:ec2::254"),
    }
    hosts = ("inner.example", "metadata.example", "unknown.example")
    with (
        serving(place, fetching=PollSettings(resolve=resolve)) as running,
        running.client() as root,
    ):
        with running.user("erin") as erin:
            assert erin.put("/v1/streams/S", json={}).status_code == 201
            at = subscribed(erin, "q")
            answers, polls = [], []
            for host in hosts:
                wanted = {"kind": "webhook", "url": f"http://{host}/x"}
                answer = erin.post(f"{at}/endpoints", json=wanted)
                answers.append((answer.status_code, answer.text.replace(host, "HOST")))
                new = {"url": f"http://{host}/feed", "keep": True}
                feed = erin.post("/v1/feeds", json=new).json()
                path = f"/v1/feeds/{feed['key']}"
                eventually(lambda path=path: erin.get(path).json()["code"] is not None)  # type: ignore[misc]  # mypy infers no type for the default
                shown = erin.get(path).json()
                told = (shown["state"], shown["code"], shown["error"], shown["failures"])
                polls.append(str(told).replace(host, "HOST"))
            assert len(set(answers)) == len(set(polls)) == 1
            assert answers[0][0] == 422
            assert json.loads(answers[0][1])["code"] == "fetch_unreachable"
            made(erin, at, kind="webhook", url="http://public.example/x")
        # The operator may name a host that is not there yet.
        at = subscribed(root, "q")
        made(root, at, kind="webhook", url="http://unknown.example/x")


# -- Each channel is at all of its surfaces; `xscl.delivery.endpoint` declares them --------


@pytest.mark.parametrize("kind", CHANNELS)
def test_a_channel_is_everywhere(kind: str, operator: httpx.Client) -> None:
    channel = CHANNELS[kind]
    assert channel.target in {one.name for one in fields(channel)}
    outbox = (ROOT / "xscl/delivery/outbox/outbox.py").read_text()
    assert any(re.search(rf"case {one.__name__}\(", outbox) for one in channel.__mro__), "a sender"
    models = {
        get_args(model.model_fields["kind"].annotation)[0]: model
        for model in get_args(get_args(deliveries.NewEndpoint)[0])
    }
    assert kind in models, "a model of the API"
    assert channel.target in models[kind].model_fields, "the target in its model"
    ok(operator.put("/v1/subscriptions/any", json={"query": "S//a"}))
    page = operator.get("/subscriptions/any").text
    assert f'<option value="{kind}"' in page, "the form of the page"
    assert f'"kind": "{kind}"' in (ROOT / "docs/deliveries.md").read_text(), "the documentation"


def test_an_address_as_it_is_shown_is_none(operator: httpx.Client) -> None:
    """A change by what an answer shows would lose the address."""
    ok(operator.put("/v1/subscriptions/any", json={"query": "S//a"}))
    new = {"kind": "slack", "url": "https://hooks.invalid/services/KEY"}
    made = ok(operator.post("/v1/subscriptions/any/endpoints", json=new))
    shown = {"url": "https://hooks.invalid/***"}
    for answer in (
        operator.post("/v1/subscriptions/any/endpoints", json={**new, **shown}),
        operator.patch(f"/v1/subscriptions/any/endpoints/{made['id']}", json=shown),
    ):
        assert "give the whole address" in answer.json()["detail"]
