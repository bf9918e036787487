"""Mails to users: only to addresses that are theirs, and so many in a day."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from tests.xscl.delivery.post_office import Post, content, post_office
from tests.xscl.delivery.test_files_and_mails import message
from tests.xscl.service.conftest import Running, code, eventually, ok, send_batch, serving
from xscl.delivery.channels.mail import CODES, TRIES, mail_sender
from xscl.delivery.endpoint import Delivered, Later, SendFailed
from xscl.ingestion.data_directory import DataDirectory
from xscl.limiter import DailyQuota

TO = "reader@example.org"
PUBLIC = "https://feeds.example"


@pytest.fixture(scope="module")
def post() -> Iterator[Post]:
    with post_office() as found:
        yield found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, post: Post) -> Iterator[Running]:
    """A service that mails."""
    home = DataDirectory(tmp_path_factory.mktemp("service") / "data")
    with serving(home, mail=post.server, public_url=PUBLIC) as found:
        yield found


@pytest.fixture(autouse=True)
def without_mails(post: Post) -> None:
    post.mails.clear()
    post.refused.clear()


def subscribed(user: httpx.Client, name: str) -> str:
    """Return the address of the endpoints of a new subscription on the user's own stream."""
    ok(user.put(f"/v1/streams/{name}", json={}))
    ok(user.put(f"/v1/subscriptions/{name}", json={"query": f"{name}//item->i"}))
    return f"/v1/subscriptions/{name}/endpoints"


def send(user: httpx.Client, stream: str, *numbers: int) -> None:
    item = "<item><title>Item {}</title></item>"
    send_batch(user, stream, {f"{stream}-{n}": item.format(n) for n in numbers})


def code_in(post: Post) -> str:
    """The code of the last mail."""
    found = re.search(r"^ +(\d{8})\s*$", post.mails[-1][1].get_content(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_nothing_is_mailed_to_an_address_before_it_is_confirmed(
    alice: httpx.Client, bob: httpx.Client, post: Post
) -> None:
    at = subscribed(alice, "hers")
    made = ok(alice.post(at, json={"kind": "mail", "to": TO}))
    one = f"{at}/{made['id']}"
    assert made["state"] == "unconfirmed"
    assert post.subjects == ["Confirm your mail address"]
    assert post.mails[0][0] == [TO]
    right = code_in(post)
    assert right not in str(made)
    send(alice, "hers", 1)
    eventually(lambda: len(ok(alice.get("/v1/subscriptions/hers/matches"))["matches"]) == 1)
    assert code(alice.patch(one, json={"state": "active"})) == (409, "endpoint_unconfirmed")
    wrong = f"{(int(right) + 1) % 10**8:08d}"
    assert code(alice.post(f"{one}:confirm", json={"code": wrong})) == (403, "wrong_code")
    assert code(bob.post(f"{one}:confirm", json={"code": right})) == (404, "unknown_subscription")
    assert len(post.mails) == 1
    confirmed = ok(alice.post(f"{one}:confirm", json={"code": right}))
    assert confirmed["state"] == "active"
    eventually(lambda: post.subjects[1:] == ["hers: Item 1"])
    # Her other subscriptions may mail there at once; another user's may not.
    assert ok(alice.post(at, json={"kind": "mail", "to": TO}))["state"] == "active"
    his = subscribed(bob, "his")
    assert ok(bob.post(his, json={"kind": "mail", "to": TO}))["state"] == "unconfirmed"


def test_a_code_cannot_be_guessed(alice: httpx.Client, post: Post) -> None:
    at = subscribed(alice, "guessed")
    made = ok(alice.post(at, json={"kind": "mail", "to": "other@example.org"}))
    one = f"{at}/{made['id']}:confirm"
    right = code_in(post)
    wrong = [f"{(int(right) + 1 + number) % 10**8:08d}" for number in range(TRIES)]
    for given in (*wrong, right):
        assert code(alice.post(one, json={"code": given})) == (403, "wrong_code")
    assert ok(alice.post(one, json={}))["state"] == "unconfirmed"
    assert len(post.mails) == 2
    assert ok(alice.post(one, json={"code": code_in(post)}))["state"] == "active"


def test_a_stranger_has_few_codes_a_day(alice: httpx.Client, bob: httpx.Client, post: Post) -> None:
    """For all ways to request a code; a code that was not mailed is invalid."""
    to = "stranger@example.org"
    wanted = {"kind": "mail", "to": to}
    at = subscribed(alice, "pestering")
    post.refused.append(to)
    assert code(alice.post(at, json=wanted)) == (503, "mail_server")
    post.refused.clear()
    one = f"{at}/{ok(alice.post(at, json=wanted))['id']}"
    ok(alice.post(f"{one}:confirm", json={}))
    ok(alice.post(at, json=wanted | {"to": "Stranger@example.org"}))
    assert len(post.mails) == CODES
    assert code(alice.post(f"{one}:confirm", json={})) == (403, "quota_exceeded")
    assert code(alice.post(at, json=wanted)) == (403, "quota_exceeded")
    assert len(post.mails) == CODES
    assert len(ok(alice.get(at))) == 2
    his = subscribed(bob, "pestering")
    assert ok(bob.post(his, json=wanted))["state"] == "unconfirmed"
    assert "nothing more" not in post.mails[-1][1].get_content()


@pytest.mark.parametrize("stories", [False, True])
def test_a_mail_leads_to_its_match(operator: httpx.Client, post: Post, stories: bool) -> None:
    name = f"shown-{stories}"
    query = f"{name}//item->a[./title->t] FOLLOWED BY{{t = u, 1 d}} {name}//item->b[./title->u]"
    ok(operator.put(f"/v1/subscriptions/{name}", json={"query": query, "stories": stories}))
    at = f"/v1/subscriptions/{name}/endpoints"
    ok(operator.post(at, json={"kind": "mail", "to": TO}))
    for number in (1, 2):
        item = f"<item><title>Item 1</title><number>{number}</number></item>"
        ok(operator.post(f"/v1/documents/{name}?id={name}-{number}", content=item))
    eventually(lambda: post.mails)
    mail = post.mails[0][1]
    (path,) = re.findall(rf"{PUBLIC}(/matches/\S+)", content(mail, "plain"))
    assert f'href="{PUBLIC}{path}"' in content(mail, "html")
    page = operator.get(path)
    assert page.status_code == 200
    assert page.text.count("Item 1") >= 2
    ok(operator.delete(f"/v1/subscriptions/{name}", params={"purge": True}))


def test_a_mail_leads_to_its_end(operator: httpx.Client, running: Running, post: Post) -> None:
    """One click of a mail program is enough; looking at the address changes nothing."""
    ok(operator.put("/v1/subscriptions/left", json={"query": "left//item->i"}))
    at = "/v1/subscriptions/left/endpoints"
    id = ok(operator.post(at, json={"kind": "mail", "to": TO}))["id"]
    send(operator, "left", 1)
    eventually(lambda: post.subjects == ["left: Item 1"])
    mail = post.mails[0][1]
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    address = str(mail["List-Unsubscribe"])[1:-1]
    assert address.startswith(f"{PUBLIC}/unsubscribe/{id}/")
    assert content(mail, "html").count(address) == content(mail, "plain").count(address) == 1
    assert f"{PUBLIC}/subscriptions/left" in content(mail, "plain")
    path = address.removeprefix(PUBLIC)
    with httpx.Client(base_url=running.address) as stranger:
        assert 'method="post"' in stranger.get(path).text
        assert ok(operator.get(f"{at}/{id}"))["state"] == "active"
        for wrong in (path[:-1] + ("1" if path[-1] == "0" else "0"), path.replace(id, "ep_0")):
            assert stranger.post(wrong).status_code == 404
        assert ok(operator.get(f"{at}/{id}"))["state"] == "active"
        body = {"List-Unsubscribe": "One-Click"}
        assert stranger.post(path, data=body).status_code == 200
    shown = ok(operator.get(f"{at}/{id}"))
    assert (shown["state"], shown["note"]) == ("disabled", "the reader asked for no more mails")
    send(operator, "left", 2)
    ok(operator.patch(f"{at}/{id}", json={"state": "active"}))
    eventually(lambda: post.subjects == ["left: Item 1", "left: Item 2"])


def test_an_address_that_the_server_refuses_leaves_no_endpoint(
    alice: httpx.Client, post: Post
) -> None:
    post.refused.append("nobody@example.org")
    at = subscribed(alice, "refused")
    refused = alice.post(at, json={"kind": "mail", "to": "nobody@example.org"})
    assert code(refused) == (503, "mail_server")
    assert ok(alice.get(at)) == []


def test_a_quota_of_mails(running: Running, operator: httpx.Client, post: Post) -> None:
    """Mails over the limit wait for the next day; none is lost, and none counts as failed."""
    with running.user("dora") as dora:
        ok(operator.put("/v1/accounts/dora/quota", json={"mails_a_day": 3}))
        at = subscribed(dora, "many")
        made = ok(dora.post(at, json={"kind": "mail", "to": "dora@example.org"}))
        one = f"{at}/{made['id']}"
        ok(dora.post(f"{one}:confirm", json={"code": code_in(post)}))
        send(dora, "many", 1, 2, 3, 4)
        eventually(lambda: len(post.mails) == 3)
        eventually(lambda: ok(dora.get(one))["note"].startswith("no more mails today"))
        held = ok(dora.get(one))
        assert (held["state"], held["failures"], held["letters"]) == ("active", 0, 0)
        assert held["next_try"] is not None
        assert ok(dora.get("/v1/me"))["used"]["mails_today"] == 3
        more = dora.post(at, json={"kind": "mail", "to": "another@example.org"})
        assert code(more) == (403, "quota_exceeded")
        ok(operator.put("/v1/accounts/dora/quota", json={}))
        ok(dora.patch(one, json={"state": "active"}))
        eventually(lambda: post.subjects[1:] == [f"many: Item {n}" for n in (1, 2, 3, 4)])


def test_a_mail_that_failed_is_not_counted(post: Post) -> None:
    mails = DailyQuota[int](lambda: 80_000.0)
    count, refund = partial(mails.consume, 7, 1), partial(mails.refund, 7)
    sender = mail_sender(post.server, "nobody@example.org", wait=count, refund=refund)
    post.refused.append("nobody@example.org")
    for _ in range(2):
        assert isinstance(asyncio.run(sender.send([message("one")])), SendFailed)
        assert mails.used(7) == 0
    post.refused.clear()
    assert isinstance(asyncio.run(sender.send([message("one")])), Delivered)
    assert mails.used(7) == 1
    assert isinstance(asyncio.run(sender.send([message("two")])), Later)
    assert mails.used(7) == 1


def test_without_a_mail_server_mails_are_refused_with_what_to_do(place: DataDirectory) -> None:
    with serving(place) as running, running.client() as operator:
        ok(operator.put("/v1/subscriptions/q", json={"query": "S//item->i"}))
        wanted = {"kind": "mail", "to": TO}
        refused = operator.post("/v1/subscriptions/q/endpoints", json=wanted)
        assert code(refused) == (422, "no_mail_server")
        assert "--smtp" in refused.json()["hint"]
        # What may be allowed is told to who can allow it, and to nobody else.
        wanted = {"kind": "webhook", "url": "http://10.0.0.1/"}
        refused = operator.post("/v1/subscriptions/q/endpoints", json=wanted)
        assert "--allow-address" in refused.json()["hint"]
        feed = operator.post("/v1/feeds", json={"url": "http://10.0.0.1/feed"})
        assert "--allow-address" in feed.json()["hint"]
        with running.user("erin") as erin:
            ok(erin.put("/v1/streams/S", json={}))
            ok(erin.put("/v1/subscriptions/q", json={"query": "S//item->i"}))
            refused = erin.post("/v1/subscriptions/q/endpoints", json=wanted)
            assert code(refused) == (422, "url_private")
            assert "hint" not in refused.json()
