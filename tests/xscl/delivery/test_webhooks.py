"""Webhooks through an outbox: what receivers may do, and what comes of it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

import xscl
from feeds.http.connection import RequestSettings
from feeds.http.refused_networks import REFUSED_IPV4, REFUSED_IPV6, RefusedNetwork
from tests.feeds.test_addresses import samples, written
from tests.xscl.delivery.receiver import (
    EACH,
    ITEM,
    OK,
    QUICK,
    Does,
    Got,
    NotSigned,
    Receiver,
    Sending,
    eventually,
    item,
    sending,
    status,
    verify,
)
from tests.xscl.polling.scripted import Clock
from xscl.client import Match
from xscl.delivery.channels.signature import headers, new_secret, sign
from xscl.delivery.channels.webhook import webhook_sender
from xscl.delivery.endpoint import (
    NO_ADDRESS,
    Endpoint,
    EndpointSecrets,
    Ntfy,
    SendFailed,
    Slack,
    Webhook,
)
from xscl.delivery.message import Message
from xscl.delivery.outbox import endpoints
from xscl.delivery.outbox.endpoints import OVERLAP, Endpoints
from xscl.delivery.send_slots import SAME_HOST, SendSlots
from xscl.polling.arrival_clock import DAY, ArrivalClock
from xscl.polling.credentials import Credentials
from xscl.polling.feed_repository import ticks
from xscl.subscriptions.match import DocumentSource


@pytest.fixture(scope="module")
def at_work(receiver: Receiver) -> Iterator[Sending]:
    with sending(receiver, Credentials()) as sender:
        yield sender


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    return f"/{request.node.name}"


@pytest.fixture
def name(at_work: Sending, path: str) -> Iterator[str]:
    """A subscription of the test's own."""
    at_work.engine.subscribe(path, EACH)
    yield path
    at_work.outbox.unsubscribe(path)


def hook(sender: Sending, name: str, url: str, *, grouped: bool = True) -> Endpoint:
    return sender.outbox.deliver(name, Webhook(url, grouped=grouped))[0]


def now(sender: Sending, endpoint: Endpoint) -> Endpoint:
    return sender.outbox.endpoints[endpoint.id]


def test_matches_on_the_same_documents_are_one_message(
    at_work: Sending, receiver: Receiver, name: str
) -> None:
    at_work.engine.subscribe("pairs", ITEM)
    hook(at_work, "pairs", receiver.url(name))
    hook(at_work, "pairs", receiver.url(f"{name}/each"), grouped=False)
    at_work.items(3, "x", "y", "z")
    eventually(lambda: len(receiver.at(f"{name}/each")) == 9)
    eventually(lambda: len(receiver.at(name)) == 3)
    at_work.outbox.unsubscribe("pairs")
    assert [len(one.data["matches"]) for one in receiver.at(name)] == [3, 3, 3]
    assert receiver.at(name)[0].data["matches"][0].keys() == Match.model_fields.keys()
    grouped = [m["match"] for one in receiver.at(name) for m in one.data["matches"]]
    assert grouped == receiver.ids(f"{name}/each")


def test_matches_between_history_are_delivered_if_wanted_only(
    at_work: Sending, receiver: Receiver, name: str
) -> None:
    hook(at_work, name, receiver.url(name))
    at_work.outbox.deliver(name, Webhook(receiver.url(f"{name}/all"), history=True))
    number = at_work.number = at_work.number + 2
    at_work.push(item(number - 2, history=True))
    at_work.push(item(number - 1))
    eventually(lambda: len(receiver.at(f"{name}/all")) == 2)
    eventually(lambda: len(receiver.at(name)) == 1)
    assert receiver.ids(name) == receiver.ids(f"{name}/all")[1:]
    assert receiver.at(f"{name}/all")[0].data["history"] is True


@pytest.mark.parametrize("answer", [302, 404, 500, "reset"])
def test_c16_w14_an_answer_that_is_none_is_tried_again_with_the_same_id(
    at_work: Sending, receiver: Receiver, name: str, answer: int | Literal["reset"]
) -> None:
    elsewhere = f"Location: {receiver.url('/elsewhere')}"
    does = answer if answer == "reset" else status(answer, elsewhere)
    endpoint = hook(at_work, name, receiver.does(name, does, OK))
    at_work.items()
    eventually(lambda: len(receiver.at(name)) == 2)
    assert len(set(receiver.ids(name))) == 1
    eventually(lambda: now(at_work, endpoint).position == at_work.outbox.pages.position())
    assert now(at_work, endpoint).failures == 0
    assert receiver.at("/elsewhere") == []


def test_w14_retry_after_is_waited_for(at_work: Sending, receiver: Receiver, name: str) -> None:
    endpoint = hook(at_work, name, receiver.does(name, status(429, "Retry-After: 3600"), OK))
    at_work.items()
    eventually(lambda: now(at_work, endpoint).failures == 1)
    waiting = now(at_work, endpoint)
    assert waiting.next_try - ticks() > 3_000_000_000
    at_work.outbox.endpoints.change(endpoint.id, Endpoint.resumed)
    eventually(lambda: len(receiver.at(name)) == 2)


def test_w14_an_endless_body_is_read_in_part(
    at_work: Sending, receiver: Receiver, name: str
) -> None:
    hook(at_work, name, receiver.does(name, "endless"))
    at_work.items(2)
    eventually(lambda: len(receiver.at(name)) == 2)
    assert receiver.sent < 64 << 20


def test_w14_no_answer_is_a_failure_after_some_time(receiver: Receiver, path: str) -> None:
    with sending(receiver, Credentials(), seconds=0.2) as sender:
        sender.engine.subscribe("q", EACH)
        hook(sender, "q", receiver.does(path, "hang", OK))
        sender.items()
        eventually(lambda: len(receiver.at(path)) == 2)


def test_a_message_that_is_refused_is_a_dead_letter_until_it_is_replayed(
    at_work: Sending, receiver: Receiver, name: str
) -> None:
    refused: list[str] = []
    taken: list[str] = []

    def choose(got: Got) -> Does:
        if not refused:
            refused.append(got.id)
        return status(422) if got.id == refused[0] and not taken else OK

    receiver.choose[name] = choose
    endpoint = hook(at_work, name, receiver.url(name))
    at_work.items(4)
    eventually(lambda: now(at_work, endpoint).state == "disabled")
    assert "after 4 attempts" in now(at_work, endpoint).note
    assert set(receiver.ids(name)) == set(refused), "it blocks those behind it"
    (letter,) = at_work.outbox.endpoints.letters(endpoint.id)
    assert (letter.message, letter.next_try) == (refused[0], None)
    assert "422" in letter.reason
    at_work.outbox.endpoints.change(endpoint.id, Endpoint.resumed)
    eventually(lambda: len(set(receiver.ids(name))) == 4)
    at_work.outbox.endpoints.replay(endpoint.id)
    eventually(
        lambda: at_work.outbox.endpoints.letters(endpoint.id)[0].attempts == letter.attempts + 1
    )
    assert at_work.outbox.endpoints.letters(endpoint.id)[0].next_try is None
    taken.append("from now on")
    at_work.outbox.endpoints.replay(endpoint.id)
    eventually(lambda: not at_work.outbox.endpoints.letters(endpoint.id))
    assert receiver.ids(name)[-1] == refused[0]
    others = [id for id in receiver.ids(name) if id != refused[0]]
    assert len(others) == len(set(others)) == 3


def test_w15_down_and_up_again_has_all_in_order(
    at_work: Sending, receiver: Receiver, name: str
) -> None:
    receiver.scripts[name] = [status(500), "reset", OK]
    hook(at_work, name, receiver.url(name))
    at_work.items(5)
    eventually(lambda: len(set(receiver.ids(name))) == 5)
    kept = [match.id for match in at_work.engine.matches_of(name).matches]
    assert list(dict.fromkeys(receiver.ids(name))) == kept[-5:]


def test_a_clock_step_of_a_month_and_back_puts_no_delivery_off(receiver: Receiver) -> None:
    ahead = 0
    clock = ArrivalClock(lambda: ticks() + ahead)
    with sending(receiver, Credentials(), pace=replace(QUICK, clock=clock.now)) as sender:
        sender.engine.subscribe("stepped", EACH)
        endpoint = hook(sender, "stepped", receiver.does("/stepped", status(500)))
        ahead = 30 * DAY
        sender.items()
        eventually(lambda: now(sender, endpoint).failures > 0)
        ahead = 0
        assert now(sender, endpoint).next_try < ticks() + DAY
        receiver.does("/stepped", OK)
        sender.outbox.endpoints.change(endpoint.id, Endpoint.resumed)  # if its schedule has ended
        eventually(lambda: now(sender, endpoint).failures == 0)
        assert now(sender, endpoint).state == "active"


def test_w6_who_is_not_there_is_told_in_the_same_words() -> None:
    """A closed port of an inner host that is allowed, and a name that does not exist."""

    async def named(host: str, port: int) -> tuple[str, ...]:
        if host == "closed.test":
            return ("127.0.0.1",)
        raise OSError

    message = Message("0" * 32, "q", 1, 1, 1, 0, False, (), ())
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        port = unused.getsockname()[1]
        requests = RequestSettings(
            frozenset({f"closed.test:{port}", f"nobody.test:{port}"}), 5.0, named
        )
        for host in ("closed.test", "nobody.test"):
            hidden = EndpointSecrets(f"http://{host}:{port}/", (new_secret(),))
            sender = webhook_sender(Webhook(hidden.url), partial(_same, hidden), requests)
            outcome = asyncio.run(sender.send([message]))
            assert outcome == SendFailed("the server cannot be reached")


def _same(hidden: EndpointSecrets, now: int) -> EndpointSecrets:
    return hidden


@pytest.mark.parametrize("network", [*REFUSED_IPV4, *REFUSED_IPV6], ids=str)
def test_no_message_goes_into_a_refused_network(network: RefusedNetwork) -> None:
    message = Message("0" * 32, "q", 1, 1, 1, 0, False, (), ())

    async def sent(url: str, address: str) -> str:
        async def named(host: str, port: int) -> tuple[str, ...]:
            return (address,)

        hidden = EndpointSecrets(url, (new_secret(),))
        requests = RequestSettings(frozenset(), 5.0, named)
        sender = webhook_sender(Webhook(url), partial(_same, hidden), requests)
        outcome = await sender.send([message])
        assert isinstance(outcome, SendFailed), url
        return outcome.reason

    async def scenario() -> None:
        for address in samples(network):
            assert await sent("http://n.example/", str(address)) == (
                "the server cannot be reached, or its address is private and"
                " n.example:80 is not allowed"
            )
            for host in written(address):
                reason = await sent(f"http://{host}/", str(address))
                assert "private" in reason or "not a valid" in reason or "no valid" in reason

    asyncio.run(scenario())


def test_an_old_secret_signs_for_a_day(
    at_work: Sending, receiver: Receiver, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = ticks()
    clock = Clock(today - OVERLAP)
    monkeypatch.setattr(endpoints, "ticks", clock)
    endpoint, old = at_work.outbox.deliver(name, Webhook(receiver.url(name)))
    new = at_work.outbox.endpoints.rotate(endpoint.id)
    at_work.items()
    (got,) = eventually(lambda: receiver.at(name))
    at = int(got.headers["webhook-timestamp"])
    assert old is not None
    verify(new, got.headers, got.body, at)
    with pytest.raises(NotSigned):
        verify(old, got.headers, got.body, at)


def test_a_restart_goes_on_where_the_last_one_was(tmp_path: Path, receiver: Receiver) -> None:
    secrets, path = Credentials(tmp_path / "secrets.json"), tmp_path / "state.db"
    with sending(receiver, secrets, path) as sender:
        sender.engine.subscribe("q", ITEM)
        endpoint = hook(sender, "q", receiver.url("/restart"))
        sender.items(5)
        eventually(lambda: len(receiver.at("/restart")) == 10)
    with sending(receiver, secrets, path) as sender:
        sender.engine.push([item(10), item(11)])  # nobody is told
    with sending(receiver, Credentials(tmp_path / "secrets.json"), path) as sender:
        eventually(lambda: len(receiver.at("/restart")) == 21)
        kept = [match.id for match in sender.engine.matches()]
        eventually(lambda: now(sender, endpoint).position == len(kept))
    assert receiver.ids("/restart") == kept


def test_dead_and_slow_ones_delay_nobody(receiver: Receiver) -> None:
    """A hundred that never answer and ten that are down: one that works has its match at once."""
    names = tuple(f"{number}.test" for number in range(100))
    patient = replace(QUICK, schedule=(60.0,), ending=0.1)
    with sending(receiver, Credentials(), pace=patient, names=names, seconds=30.0) as sender:
        sender.engine.subscribe("q", EACH)
        sender.engine.subscribe("healthy", EACH)
        for name in names:
            receiver.does("/dead", "hang")
            hook(sender, "q", f"http://{name}:{receiver.port}/dead")
        for number in range(5):
            hook(sender, "healthy", receiver.does(f"/down/{number}", "reset"))
        endpoint = hook(sender, "healthy", receiver.url("/healthy"))
        sender.items()
        eventually(lambda: len(receiver.at("/dead")) == 100)
        sender.items(3)
        eventually(lambda: len(receiver.at("/healthy")) == 4)
        assert now(sender, endpoint).failures == 0


# -- Slack and ntfy -----------------------------------------------------------------------------


def message_of(*sources: DocumentSource, text: tuple[str, ...] = ()) -> Message:
    return Message("0" * 32, "news", 1, 1, 1, 0, False, sources, ({"backfilled": False},), text)


def source(title: str, url: str | None) -> DocumentSource:
    return DocumentSource("S/1", title, url, "example.org")


def test_slack_and_ntfy_have_their_own_bodies(
    at_work: Sending, receiver: Receiver, name: str
) -> None:
    at_work.outbox.deliver(name, Slack(receiver.url(f"{name}/slack")))
    _, secret = at_work.outbox.deliver(name, Ntfy(receiver.url(f"{name}/ntfy")))
    assert secret is None
    at_work.items(1, "x")
    eventually(lambda: receiver.at(f"{name}/slack") and receiver.at(f"{name}/ntfy"))
    (slack,), (ntfy,) = receiver.at(f"{name}/slack"), receiver.at(f"{name}/ntfy")
    assert json.loads(slack.body)["text"].startswith(f"*{name}*\n")
    assert ntfy.headers["title"].startswith(name)
    assert ntfy.headers["content-type"] == "text/plain; charset=utf-8"
    assert not any(one.startswith("webhook-") for one in (*slack.headers, *ntfy.headers))


def test_a_path_of_slack_is_in_no_table() -> None:
    """Anybody who knows it may write to the channel."""
    address = "https://me:pw@hooks.example.org/services/T0/B0/KEY?a=b"
    with xscl.Engine() as engine, closing(Endpoints(engine.connect(), Credentials())) as known:
        engine.subscribe("q", EACH)
        made, _ = known.add("q", Slack(address), 0)
        shown = Slack(address).redacted()
        for endpoint in (
            made,
            known.change(made.id, lambda one: replace(one, channel=shown), url=address),
        ):
            assert endpoint is not None
            assert endpoint.channel == Slack("https://hooks.example.org/***")
            assert known.hidden(made.id, 0).url == address
            assert not known.lacking(endpoint)
        elsewhere = replace(made, id="other")  # whose secrets are on another machine
        assert known.lacking(elsewhere) == NO_ADDRESS


def test_a_text_for_slack_has_no_meaning_of_its_own() -> None:
    message = message_of(source("a <b> & |c|", "https://e.org/?a=1&b=2"), source("plain", None))
    text = json.loads(Slack("").posted(message).body)["text"]
    link = (
        "<https://e.org/?a=1&amp;b=2|a &lt;b&gt; &amp; \N{BROKEN BAR}c\N{BROKEN BAR} (example.org)>"
    )
    plain = "\N{BULLET} plain (example.org)"
    assert text.splitlines() == ["*news*", f"\N{BULLET} {link}", plain]


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}'


def test_w13_published_vector() -> None:
    assert sign(SECRET, ID, AT, BODY) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_w13_receiver_takes_what_was_signed() -> None:
    verify(SECRET, headers([SECRET], ID, AT, BODY), BODY, AT + 299)


@pytest.mark.parametrize(
    ("changed", "body", "now"),
    [
        ({}, b'{"test": 2432232315}', AT),
        ({}, BODY, AT + 600),
        ({"webhook-id": "msg_other"}, BODY, AT),
        ({"webhook-signature": "v1,g0hM9SsE"}, BODY, AT),
    ],
)
def test_w13_receiver_refuses_what_was_not(
    changed: dict[str, str], body: bytes, now: float
) -> None:
    with pytest.raises(NotSigned):
        verify(SECRET, headers([SECRET], ID, AT, BODY) | changed, body, now)


def test_a_host_has_slots_only_while_somebody_sends_there() -> None:
    async def run() -> None:
        slots, go, there = SendSlots(), asyncio.Event(), []

        async def send(host: str) -> None:
            async with slots.hold(7, host, False):
                there.append(host)
                await go.wait()

        sendings = [asyncio.create_task(send("one")) for _ in range(SAME_HOST + 2)]
        sendings.append(asyncio.create_task(send("other")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sorted(there) == ["one"] * SAME_HOST + ["other"]
        sendings[SAME_HOST].cancel()  # who waits and gives up frees no slot
        await asyncio.sleep(0)
        assert slots.hosts == 2
        go.set()
        await asyncio.gather(*sendings, return_exceptions=True)
        assert there.count("one") == SAME_HOST + 1
        assert slots.hosts == 0

    asyncio.run(run())
