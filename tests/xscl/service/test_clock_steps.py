"""A wall clock that jumps: it is reported, and joins go on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.xscl.commandline import called
from tests.xscl.polling import scripted
from tests.xscl.polling.scripted import DAY, reply, rss
from tests.xscl.service.conftest import Running, ok, serving
from tests.xscl.service.conftest import eventually as eventually_within
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.feed_poller import PollSettings
from xscl.polling.feed_repository import ticks

HOUR = "1 h"
WATCHDOG = 200.0


def eventually(check: Callable[[], bool]) -> None:
    """Return when something has become true; polls and batches wait for a busy machine."""
    eventually_within(check, WATCHDOG)


ITEM = "news//item[./title->y]"


@dataclass
class Wall:
    """The clock of this machine, which can be set by hand."""

    ahead: int = 0

    def __call__(self) -> int:
        return ticks() + self.ahead


@dataclass
class Place:
    """A service on such a clock that follows a feed, and its operator."""

    wall: Wall
    running: Running
    operator: httpx.Client
    feed: str
    server: scripted.Server

    def post(self, kind: str, text: str) -> str:
        body = f"<{kind}><k>{text}</k></{kind}>".encode()
        return str(ok(self.operator.post("/v1/documents/S", content=body))["id"])

    def publish(self, *titles: str) -> None:
        """Publish items in the feed, and return when they were polled."""
        self.server.says("/feed", reply(rss(*titles)))
        address = f"/v1/feeds/{self.feed}"

        def polled() -> bool:
            # A poll that was in flight may have had the answer of before: ask again.
            ok(self.operator.post(f"{address}:poll"))
            return bool(ok(self.operator.get(address))["items"] == len(titles))

        eventually(polled)

    def matches(self, name: str) -> list[list[str]]:
        found = ok(self.operator.get(f"/v1/subscriptions/{name}/matches"))["matches"]
        return [match["documents"] for match in found]

    def clock(self) -> str:
        return str(ok(self.operator.get("/v1/health"))["clock"])


@pytest.fixture
def clocked(place: DataDirectory) -> Iterator[Place]:
    wall = Wall()
    with scripted.serving() as server:
        server.says("/feed", reply(rss("t1 old")))
        fetching = PollSettings((server.address,))
        clock = ArrivalClock(wall)
        with (
            serving(place, fetching=fetching, clock=clock) as running,
            running.client() as operator,
        ):
            new = {"url": server.url("/feed"), "stream": "news"}
            key = ok(operator.post("/v1/feeds", json=new))["key"]
            for name, query in {
                "posts": f"S//a[./k->x] FOLLOWED BY{{x = y, {HOUR}}} S//b[./k->y]",
                "items": f"S//a[./k->x] FOLLOWED BY{{x = y, {HOUR}}} {ITEM}",
                "answers": f"{ITEM} FOLLOWED BY{{y = x, {HOUR}}} S//b[./k->x]",
            }.items():
                ok(operator.put(f"/v1/subscriptions/{name}", json={"query": query}))
            yield Place(wall, running, operator, key, server)


def test_a_step_is_reported_with_the_way_back(clocked: Place) -> None:
    data = ("--data", str(clocked.running.home.path))
    status = clocked.operator.get("/v1/status").json()["service"]
    assert (status["wall_clock"], status["wall_clock_ahead"]) == ("ok", 0)
    clocked.wall.ahead = 30 * DAY
    health = ok(clocked.operator.get("/v1/health"))
    assert health["clock"] == "stepped"
    assert health["clock_ahead"] == pytest.approx(30 * 86_400, abs=1)

    def shown() -> str:
        return clocked.operator.get("/status", headers={"Accept": "text/html"}).text

    eventually(lambda: "Wall clock" in shown())
    assert "restart the service if it is right now" in shown()
    gauge = re.compile(r"^xscl_wall_clock_ahead_seconds 2\.59\d+e\+06$", re.MULTILINE)
    assert gauge.search(clocked.operator.get("/v1/metrics").text)
    checked = called("doctor", "--port", "0", *data)
    assert checked.exit_code == 1
    assert "bad   clock     the wall clock is +2592000 s against" in checked.stdout
    assert "hint: set it right, or restart the service if it is right now" in checked.stdout
    assert "wall clock     +2592000 s against" in called("status", *data).stdout
    clocked.wall.ahead = 0
    eventually(lambda: "Wall clock" not in shown())
    assert "bad   clock" not in called("doctor", "--port", "0", *data).stdout


def test_times_of_senders_are_bounded_by_the_clock_of_arrivals(clocked: Place) -> None:
    clocked.wall.ahead = 30 * DAY
    sent = str(ticks() + 29 * DAY)
    refused = clocked.operator.post("/v1/documents/S", params={"time": sent}, content=b"<a/>")
    assert (refused.status_code, refused.json()["code"]) == (422, "future")
