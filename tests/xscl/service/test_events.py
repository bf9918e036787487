"""Matches as they come, over HTTP: nothing is missing and nothing comes twice."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message

from tests.examples import usually
from tests.waiting import PATIENCE
from tests.xscl.delivery.receiver import EACH, Sending
from tests.xscl.service.conftest import Running, code, eventually, ok, send_batch, serving
from tests.xscl.service.listening import Event, listening
from xscl.delivery.listeners import ListenerQuery
from xscl.delivery.outbox.outbox import DeliverySettings, Outbox
from xscl.engine.facade import Engine
from xscl.engine.match_log import LAST
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.credentials import Credentials
from xscl.service.problems import PROBLEM
from xscl.service.restore import restore
from xscl.service.routes.events import EventStream, Patience, StartPoint

QUERY = "S//item->i"


def send(client: httpx.Client, *numbers: int, stream: str = "S", text: str = "") -> None:
    item = "<item><title>Item {}</title><text>{}</text></item>"
    send_batch(client, stream, {f"{stream}-{n}": item.format(n, text) for n in numbers})


def subscribed(client: httpx.Client, name: str, query: str = QUERY) -> str:
    ok(client.put(f"/v1/subscriptions/{name}", json={"query": query}))
    return f"/v1/subscriptions/{name}"


def kept(client: httpx.Client, at: str) -> list[str]:
    found: list[str] = []
    following = "limit=3&after=0"
    while following:
        page = client.get(f"{at}/matches?{following}").json()
        found += [match["id"] for match in page["matches"]]
        following = page["next"]
    return found


def test_events_come_and_go_on_where_they_were(operator: httpx.Client) -> None:
    at = subscribed(operator, "live")
    with listening(operator, f"{at}/events") as listener:
        send(operator, 1, 2, 3)
        first = listener.take(3)
    send(operator, 4, 5)
    eventually(lambda: len(kept(operator, at)) == 5)
    with listening(operator, f"{at}/events", first[1].id) as listener:
        again = listener.take(3)
        send(operator, 6)
        again += listener.take(1)
    ids = [event.data["data"]["id"] for event in first[:2] + again]
    assert ids == kept(operator, at)
    assert {event.name for event in first} == {"match"}
    assert first[0].data["data"]["sources"][0]["title"] == "Item 1"
    matches = ok(operator.get(f"{at}/matches?limit=1&after=0"))["matches"]
    assert first[0].data["data"]["matches"] == matches


def test_events_of_all_go_on_within_one_result(operator: httpx.Client) -> None:
    """Subscriptions that share a result have matches at one position."""
    for name in ("one", "two", "three"):
        subscribed(operator, name, "Shared//item->i")
    with listening(operator, "/v1/events?after=0") as listener:
        send(operator, 1, 2, stream="Shared")
        seen: list[Event] = []
        while len(seen) < 6:
            event = listener.next()
            if event.data["data"]["subscription"] in ("one", "two", "three"):
                seen.append(event)
    assert len({event.id for event in seen}) == 6
    with listening(operator, "/v1/events", seen[0].id) as listener:
        again = listener.take(5)
    assert [event.id for event in again] == [event.id for event in seen[1:]]


def test_w8_events_are_ones_own(
    operator: httpx.Client, alice: httpx.Client, bob: httpx.Client
) -> None:
    operator.put("/v1/streams/Shared", json={})
    for user in (alice, bob):
        subscribed(user, "mine", "Shared//item->i")
    assert bob.get("/v1/subscriptions/live/events").status_code == 404
    with listening(alice, "/v1/events") as hers, listening(bob, "/v1/events") as his:
        send(operator, 77, stream="Shared")
        (a,), (b,) = hers.take(1), his.take(1)
    assert a.data["data"]["subscription"] == b.data["data"]["subscription"] == "mine"
    assert a.data["data"]["id"] != b.data["data"]["id"]


@pytest.mark.parametrize("last", ["x", "-1", "1-", "1" * 30, "1-2-3", "٣"])
def test_an_id_that_is_none_is_refused(operator: httpx.Client, last: str) -> None:
    refused = operator.get("/v1/events", headers={b"Last-Event-ID": last.encode()})
    assert code(refused) == (422, "last_event_id")


def test_an_id_ahead_of_the_newest_is_refused(operator: httpx.Client) -> None:
    at = subscribed(operator, "future")
    with listening(operator, f"{at}/events") as listener:
        send(operator, 100)
        (newest,) = listener.take(1)
    generation, _, position = newest.id.partition("-")
    for path in (f"{at}/events", "/v1/events"):
        for ahead in (str(int(position) + 1), f"{generation}-{int(position) + 1}", "100000000-3"):
            for refused in (
                operator.get(path, headers={"Last-Event-ID": ahead}),
                operator.get(path, params={"after": ahead}),
            ):
                assert code(refused) == (422, "position_ahead")
                assert position in refused.json()["detail"]
        with listening(operator, path, newest.id):
            pass


def test_who_comes_back_after_matches_were_dropped_is_told_of_the_gap(place: DataDirectory) -> None:
    hour = timedelta(hours=1)
    began = now = datetime.now(UTC) - 20 * hour

    def clock() -> int:
        return round(now.timestamp() * 1_000_000)

    how: dict[str, Any] = {"keep_matches": "2 h", "clock": ArrivalClock(clock, clock)}
    with serving(place, **how) as running, running.client() as client:
        paths = [f"{subscribed(client, 'q')}/events", "/v1/events"]

        def sent(number: int, at: datetime) -> None:
            nonlocal now
            now = at
            params = {"id": f"d{number}", "time": at.isoformat()}
            ok(client.post("/v1/documents/S", params=params, content=f"<item>{number}</item>"))

        with listening(client, paths[0]) as listener:
            first = []
            for number in range(6):
                sent(number, began + number * hour)
                first += listener.take(1)  # the matches of a push stay until the next push
            eventually(lambda: len(kept(client, "/v1/subscriptions/q")) < 6)
            for number in (6, 7):
                sent(number, began + (5 * hour + timedelta(minutes=number)))
            first += listener.take(2)
        oldest = kept(client, "/v1/subscriptions/q")
        dropped = len(first) - len(oldest)
        assert 0 < dropped < len(first)
        for path in paths:
            for number, last in enumerate(first[:-1]):
                with listening(client, path, last.id) as listener:
                    if number + 1 < dropped:
                        gap = listener.next()
                        assert (gap.name, gap.data["code"]) == ("gap", "gap")
                        assert gap.data["position"] == int(gap.id.partition("-")[2])
                        assert gap.id == first[dropped - 1].id
                    ids = [one.data["data"]["id"] for one in listener.take(1)]
                    assert ids == [first[max(number + 1, dropped)].data["data"]["id"]]
            with listening(client, f"{path}?after=0") as listener:
                gap = listener.next()
                assert gap.name == "gap"
                assert listener.next().name == "match"
            with listening(client, path, gap.id) as listener:
                assert listener.next().name == "match", "told once"


def test_after_a_restore_nobody_misses_a_match_for_a_position_that_is_given_twice(
    place: DataDirectory, tmp_path: Path
) -> None:
    """A listener ahead of the backup is notified and continues at the last common position."""
    backup = tmp_path / "backup.xscl"
    with serving(place) as running, running.client() as client:
        at = subscribed(client, "q")
        with listening(client, f"{at}/events") as listener:
            send(client, 1, 2)
            common = listener.take(2)
            backup.write_bytes(client.post("/v1/backup").content)
            send(client, 3, 4, 5)
            lost = listener.take(3)
    shutil.rmtree(place.spool)  # what came after the backup comes no more
    restore(backup, place, force=True)
    with serving(place) as running, running.client() as client:
        send(client, 6, 7)
        eventually(lambda: len(kept(client, at)) == 4)
        new = kept(client, at)[2:]
        for last, told in ((common[1].id, False), (lost[0].id, True), (lost[2].id, True)):
            with listening(client, f"{at}/events", last) as listener:
                if told:
                    first = listener.next()
                    assert (first.name, first.data["code"]) == ("restored", "restored")
                    assert first.id.partition("-")[0] != last.partition("-")[0]
                assert [one.data["data"]["id"] for one in listener.take(2)] == new
        with listening(client, "/v1/events", f"g{1:08x}-9-1") as listener:
            assert listener.next().data["position"] == 0, "a generation that nobody knows"
            assert [one.data["data"]["id"] for one in listener.take(4)] == kept(client, at)


def test_who_listens_is_told_of_the_end(place: DataDirectory) -> None:
    with ExitStack() as stack:
        with serving(place) as running:
            client = stack.enter_context(running.client())
            at = subscribed(client, "q")
            listener = stack.enter_context(listening(client, f"{at}/events"))
        event = listener.next()
        assert (event.name, event.data["code"]) == ("closed", "stopping")
        assert listener.ended.wait(PATIENCE)


@pytest.mark.parametrize("many", usually([100, 500], 100))
def test_w16_many_idle_listeners_and_one_that_never_reads(
    running: Running, operator: httpx.Client, many: int
) -> None:
    stream = f"Crowd{many}"
    at = subscribed(operator, stream, f"{stream}//item->i")
    head = f"GET {at}/events HTTP/1.1\r\nHost: {running.address[7:]}\r\n\r\n".encode()
    with ExitStack() as stack:
        idle = []
        for _ in range(many):  # one after the other: they count for their user once they listen
            one = stack.enter_context(running.connect())
            one.sendall(head)
            assert b"retry:" in until(one, b"retry:")
            idle.append(one)
        with listening(operator, f"{at}/events") as listener:
            for number in range(10):
                send(operator, number, stream=stream, text="x" * 100_000)
            assert len({event.id for event in listener.take(10)}) == 10
        for one in idle[:3]:
            assert until(one, b"Item 9").count(b"event: match") == 10


def until(connection: socket.socket, wanted: bytes) -> bytes:
    """Read until something has come."""
    connection.settimeout(PATIENCE)
    read = b""
    while wanted not in read:
        piece = connection.recv(1 << 20)
        assert piece, "hung up"
        read += piece
    return read


# -- What is borne of a listener -----------------------------------------------------------


@pytest.fixture
def at_work() -> Iterator[Sending]:
    with Engine() as engine:
        outbox = Outbox(engine, Credentials(), DeliverySettings(Path("nowhere")))
        engine.subscribe("q", EACH)
        yield Sending(engine, outbox)
        outbox.close()


async def listen(
    at_work: Sending,
    patience: Patience,
    seconds: float,
    most: int,
    scope: dict[str, Any] | None = None,
) -> list[bytes]:
    """Return the events of a listener that spends so many seconds on each, `most` of them."""
    one = at_work.engine.subscription("q")
    assert one is not None
    sent: list[bytes] = []

    async def send(message: Message) -> None:
        if len(sent) > 1:  # the head, and how soon to come back
            await asyncio.sleep(seconds)
        sent.append(message.get("body", b""))

    async def receive() -> Message:
        while len(sent) < most:
            await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    asked = ListenerQuery((1,), one=one)
    stream = EventStream(at_work.outbox, asked, StartPoint((0, LAST)), patience)
    async with asyncio.timeout(30):
        await stream(scope if scope is not None else {"type": "http"}, receive, send)
    return sent


def closed(sent: list[bytes]) -> Any:
    assert sent[-1].startswith(b"event: closed\ndata: ")
    return json.loads(sent[-1].split(b"data: ")[1])


def test_w16_who_takes_slowly_while_much_comes_is_sent_away_with_the_reason(
    at_work: Sending,
) -> None:
    at_work.items(20)
    scope: dict[str, Any] = {"type": "http"}
    sent = asyncio.run(listen(at_work, Patience(slow=0.01, behind=5), 0.05, 1_000, scope))
    assert closed(sent)["code"] == scope[PROBLEM] == "too_slow"
    assert 3 < len(sent) < 20


def test_w16_who_takes_slowly_but_is_not_behind_stays(at_work: Sending) -> None:
    at_work.items(4)
    sent = asyncio.run(listen(at_work, Patience(slow=0.01, behind=5), 0.05, 6))
    assert b"".join(sent).count(b"event: match") == 4
    assert b"closed" not in sent[-1]


def test_w16_who_takes_nothing_is_hung_up_on(at_work: Sending) -> None:
    at_work.items(3)
    scope: dict[str, Any] = {"type": "http"}
    sent = asyncio.run(listen(at_work, Patience(taking=0.1), 10.0, 1_000, scope))
    assert scope[PROBLEM] == "too_slow"
    assert b"".join(sent).count(b"event: match") == 0


def test_silence_is_broken_now_and_then(at_work: Sending) -> None:
    sent = asyncio.run(listen(at_work, Patience(heartbeat=0.05), 0.0, 5))
    assert sent[2:5] == [b": \n\n"] * 3


def test_who_listens_to_what_is_removed_is_told(at_work: Sending) -> None:
    at_work.items(1)

    async def scenario() -> list[bytes]:
        listener = asyncio.create_task(listen(at_work, Patience(heartbeat=0.05), 0.0, 1_000))
        await asyncio.sleep(0.2)
        await asyncio.to_thread(at_work.engine.unsubscribe, "q")
        return await listener

    assert closed(asyncio.run(scenario()))["code"] == "removed"
