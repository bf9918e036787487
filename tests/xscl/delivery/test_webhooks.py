"""Webhooks through an outbox: what receivers may do, and what comes of it."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest

import xscl
from feeds.http.connection import RequestSettings
from tests.xscl.delivery.receiver import (
    EACH,
    ITEM,
    OK,
    QUICK,
    Does,
    Got,
    Receiver,
    Sending,
    eventually,
    is_signed,
    item,
    sending,
    status,
)
from tests.xscl.polling.scripted import Clock
from xscl.client import Match
from xscl.delivery.channels.signature import new_secret, sign
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
from xscl.delivery.outbox.endpoints import OVERLAP, Endpoints, Letter
from xscl.delivery.send_slots import SAME_HOST, SendSlots
from xscl.polling.arrival_clock import DAY, ArrivalClock
from xscl.polling.credentials import Credentials
from xscl.polling.feed_repository import ticks
from xscl.subscriptions.match import DocumentSource


@dataclass(frozen=True)
class Hooked:
    """A subscription of the test's own; its name is the path where its messages are received."""

    work: Sending
    receiver: Receiver
    name: str

    def deliver(self, below: str = "", *script: Does, **how: bool) -> Endpoint:
        """Make a webhook; the receiver follows the script."""
        url = self.receiver.does(self.name + below, *script or (OK,))
        return self.work.outbox.deliver(self.name, Webhook(url, **how))[0]

    def got(self, below: str = "") -> list[Got]:
        return self.receiver.at(self.name + below)

    def ids(self, below: str = "") -> list[str]:
        return self.receiver.ids(self.name + below)


@pytest.fixture(scope="module")
def at_work(receiver: Receiver) -> Iterator[Sending]:
    with sending(receiver, Credentials()) as sender:
        yield sender


@pytest.fixture
def hooked(
    at_work: Sending, receiver: Receiver, request: pytest.FixtureRequest
) -> Iterator[Hooked]:
    found = Hooked(at_work, receiver, f"/{request.node.name}")
    at_work.engine.subscribe(found.name, EACH)
    yield found
    at_work.outbox.unsubscribe(found.name)


def hook(sender: Sending, name: str, url: str) -> Endpoint:
    return sender.outbox.deliver(name, Webhook(url))[0]


def message_of(*sources: DocumentSource) -> Message:
    return Message("0" * 32, "news", 1, 1, 1, 0, False, sources, ({"backfilled": False},))


def now(sender: Sending, endpoint: Endpoint) -> Endpoint:
    return sender.outbox.endpoints[endpoint.id]


def test_matches_on_the_same_documents_are_one_message(hooked: Hooked) -> None:
    hooked.work.outbox.edit(hooked.name, ITEM)
    hooked.deliver()
    hooked.deliver("/each", grouped=False)
    hooked.work.items(3, "x", "y", "z")
    eventually(lambda: len(hooked.got("/each")) == 9)
    eventually(lambda: len(hooked.got()) == 3)
    assert [len(one.data["matches"]) for one in hooked.got()] == [3, 3, 3]
    assert hooked.got()[0].data["matches"][0].keys() == Match.model_fields.keys()
    grouped = [m["match"] for one in hooked.got() for m in one.data["matches"]]
    assert grouped == hooked.ids("/each")


def test_a_document_alone_on_either_side_has_two_messages(hooked: Hooked) -> None:
    """A receiver that knows messages by their ids takes both."""
    outer = ITEM.replace("FOLLOWED BY{t=u, 1000}", "JOIN{t=u, -10 TO 20}")
    hooked.work.outbox.edit(hooked.name, f"SELECT DISTINCT * FROM {outer} ELSE")
    hooked.deliver(grouped=False)
    number, hooked.work.number = hooked.work.number, hooked.work.number + 200
    for later in (0, 15, 100):  # the first item is alone on the second side at 10, else at 20
        hooked.work.push(item(number + later, str(later)))
    eventually(lambda: len(hooked.got()) == 4)
    assert len(set(hooked.ids())) == 4
    assert hooked.ids() == [one.id for one in hooked.work.engine.matches(hooked.name)]


def test_matches_between_history_are_delivered_if_wanted_only(hooked: Hooked) -> None:
    hooked.deliver()
    hooked.deliver("/all", history=True)
    number = hooked.work.number = hooked.work.number + 2
    hooked.work.push(item(number - 2, history=True))
    hooked.work.push(item(number - 1))
    eventually(lambda: len(hooked.got("/all")) == 2)
    eventually(lambda: len(hooked.got()) == 1)
    assert hooked.ids() == hooked.ids("/all")[1:]
    assert hooked.got("/all")[0].data["history"] is True


@pytest.mark.parametrize("answer", [302, 404, 500, "reset"])
def test_c16_w14_an_answer_that_is_none_is_tried_again_with_the_same_id(
    hooked: Hooked, answer: int | Literal["reset"]
) -> None:
    elsewhere = f"Location: {hooked.receiver.url('/elsewhere')}"
    endpoint = hooked.deliver("", answer if answer == "reset" else status(answer, elsewhere), OK)
    hooked.work.items()
    eventually(lambda: len(hooked.got()) == 2)
    assert len(set(hooked.ids())) == 1
    eventually(lambda: now(hooked.work, endpoint).position == hooked.work.outbox.pages.position())
    assert now(hooked.work, endpoint).failures == 0
    assert hooked.receiver.at("/elsewhere") == []


def test_w14_retry_after_is_waited_for(hooked: Hooked) -> None:
    endpoint = hooked.deliver("", status(429, "Retry-After: 3600"), OK)
    hooked.work.items()
    eventually(lambda: now(hooked.work, endpoint).failures == 1)
    waiting = now(hooked.work, endpoint)
    assert waiting.next_try - ticks() > 3_000_000_000
    hooked.work.outbox.endpoints.change(endpoint.id, Endpoint.resumed)
    eventually(lambda: len(hooked.got()) == 2)


def test_w14_an_endless_body_is_read_in_part(hooked: Hooked) -> None:
    hooked.deliver("", "endless")
    hooked.work.items(2)
    eventually(lambda: len(hooked.got()) == 2)
    assert hooked.receiver.sent < 64 << 20


def test_w14_no_answer_is_a_failure_after_some_time(receiver: Receiver) -> None:
    with sending(receiver, Credentials(), seconds=0.2) as sender:
        sender.engine.subscribe("q", EACH)
        hook(sender, "q", receiver.does("/silent", "hang", OK))
        sender.items()
        eventually(lambda: len(receiver.at("/silent")) == 2)


def test_a_message_that_is_refused_is_a_dead_letter_until_it_is_replayed(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that sees the endpoint disabled sees the letter, too."""
    refused: list[str] = []
    taken: list[str] = []

    def choose(got: Got) -> Does:
        if not refused:
            refused.append(got.id)
        return status(422) if got.id == refused[0] and not taken else OK

    hooked.receiver.choose[hooked.name] = choose
    id, endpoints = hooked.deliver().id, hooked.work.outbox.endpoints
    put_letter = endpoints.put_letter

    def put_late(letter: Letter) -> None:
        time.sleep(0.1)
        put_letter(letter)

    monkeypatch.setattr(endpoints, "put_letter", put_late)
    hooked.work.items(4)
    eventually(lambda: endpoints[id].state == "disabled")
    assert "after 4 attempts" in endpoints[id].note
    assert set(hooked.ids()) == set(refused), "it blocks those behind it"
    (letter,) = endpoints.letters(id)
    assert (letter.message, letter.next_try) == (refused[0], None)
    assert "422" in letter.reason
    endpoints.change(id, Endpoint.resumed)
    eventually(lambda: len(set(hooked.ids())) == 4)
    endpoints.replay(id)
    eventually(lambda: endpoints.letters(id)[0].attempts == letter.attempts + 1)
    assert endpoints.letters(id)[0].next_try is None
    taken.append("from now on")
    endpoints.replay(id)
    eventually(lambda: not endpoints.letters(id))
    assert hooked.ids()[-1] == refused[0]
    others = [id for id in hooked.ids() if id != refused[0]]
    assert len(others) == len(set(others)) == 3


def test_w15_down_and_up_again_has_all_in_order(hooked: Hooked) -> None:
    hooked.deliver("", status(500), "reset", OK)
    hooked.work.items(5)
    eventually(lambda: len(set(hooked.ids())) == 5)
    kept = [match.id for match in hooked.work.engine.matches_of(hooked.name).matches]
    assert list(dict.fromkeys(hooked.ids())) == kept[-5:]


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


HIDDEN = "the server cannot be reached"
UNREACHABLE = {
    **dict.fromkeys(("closed.test:{port}", "nobody.test:{port}"), HIDDEN),
    "private.test": f"{HIDDEN}, or its address is private and private.test:80 is not allowed",
    "10.0.0.1": "the address is private and 10.0.0.1:80 is not allowed",
}


@pytest.mark.parametrize("host", UNREACHABLE)
def test_w6_who_is_not_there_is_told_in_the_same_words(host: str) -> None:
    """A closed port of an inner host that is allowed, and a name that does not exist."""

    async def named(host: str, port: int) -> tuple[str, ...]:
        if host == "nobody.test":
            raise OSError
        return ("127.0.0.1" if host == "closed.test" else "10.0.0.1",)

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        port = unused.getsockname()[1]
        allowed = frozenset({f"closed.test:{port}", f"nobody.test:{port}"})
        hidden = EndpointSecrets(f"http://{host.format(port=port)}/", (new_secret(),))
        requests = RequestSettings(allowed, 5.0, named)
        sender = webhook_sender(Webhook(hidden.url), lambda now: hidden, requests)
        assert asyncio.run(sender.send([message_of()])) == SendFailed(UNREACHABLE[host])


def test_an_old_secret_signs_for_a_day(hooked: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "ticks", Clock(ticks() - OVERLAP))
    webhook = Webhook(hooked.receiver.url(hooked.name))
    endpoint, old = hooked.work.outbox.deliver(hooked.name, webhook)
    new = hooked.work.outbox.endpoints.rotate(endpoint.id)
    hooked.work.items()
    (got,) = eventually(hooked.got)
    assert old is not None
    assert is_signed(new, got)
    assert not is_signed(old, got)


def test_a_restart_goes_on_where_the_last_one_was(tmp_path: Path, receiver: Receiver) -> None:
    secrets, path = Credentials(tmp_path / "secrets.json"), tmp_path / "state.db"
    with sending(receiver, secrets, path) as sender:
        sender.engine.subscribe("q", ITEM)
        endpoint = hook(sender, "q", receiver.url("/restart"))
        sender.items(5)
        eventually(lambda: now(sender, endpoint).position == 10)
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


def test_slack_and_ntfy_have_their_own_bodies(hooked: Hooked) -> None:
    url = hooked.receiver.url(hooked.name)
    hooked.work.outbox.deliver(hooked.name, Slack(f"{url}/slack"))
    _, secret = hooked.work.outbox.deliver(hooked.name, Ntfy(f"{url}/ntfy"))
    assert secret is None
    hooked.work.items(1, "x")
    eventually(lambda: hooked.got("/slack") and hooked.got("/ntfy"))
    (slack,), (ntfy,) = hooked.got("/slack"), hooked.got("/ntfy")
    assert json.loads(slack.body)["text"].startswith(f"*{hooked.name}*\n")
    assert ntfy.headers["title"].startswith(hooked.name)
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
    named = {"a <b> & |c|": "https://e.org/?a=1&b=2", "plain": None}
    sources = (DocumentSource("S/1", title, url, "example.org") for title, url in named.items())
    message = message_of(*sources)
    text = json.loads(Slack("").posted(message).body)["text"]
    link = (
        "<https://e.org/?a=1&amp;b=2|a &lt;b&gt; &amp; \N{BROKEN BAR}c\N{BROKEN BAR} (example.org)>"
    )
    plain = "\N{BULLET} plain (example.org)"
    assert text.splitlines() == ["*news*", f"\N{BULLET} {link}", plain]


def test_w13_published_vector() -> None:
    secret, id = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    signature = sign(secret, id, 1_614_265_330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


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
