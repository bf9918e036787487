"""Load through a running service: a burst, many feeds, some hostile, a day (group L)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.waiting import PATIENCE
from tests.xscl.polling.scripted import DAY, HOUR, START, Server, reply, rss
from tests.xscl.polling.scripted import serving as scripted
from tests.xscl.polling.test_scripted_feeds import USELESS
from tests.xscl.service.conftest import ANY_PORT, Running, eventually, ok, serving
from tests.xscl.stored_tables import stored_tables
from xscl.documents import consumed_offsets
from xscl.documents.retention import Retention
from xscl.engine.facade import Engine
from xscl.ingestion import pipeline
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.feed_poller import PollSettings

CATCHES_UP = 300.0
"""Seconds after a burst in which all that was acknowledged is consumed."""


def engine_of(running: Running) -> Engine:
    outbox = running.service._outbox
    assert outbox is not None
    return outbox._engine


@contextmanager
def together(work: Callable[[], None], threads: int) -> Iterator[threading.Event]:
    """Do something in several threads, again and again until the event is set."""
    stop, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            failed.append(error)

    all_of_them = [threading.Thread(target=run) for _ in range(threads)]
    for one in all_of_them:
        one.start()
    try:
        yield stop
    finally:
        stop.set()
        for one in all_of_them:
            one.join(PATIENCE)
    if failed:
        raise failed[0]


@pytest.mark.slow
def test_l2_after_a_burst_of_a_minute_all_that_was_acknowledged_is_there(
    place: DataDirectory,
) -> None:
    """Sixteen clients send without a pause; each refusal has a Retry-After."""
    taken, refused, numbers = list[str](), list[httpx.Response](), count()
    with serving(place, replace(ANY_PORT, waiting=20)) as running, running.client() as operator:
        query = "S//a->x FOLLOWED BY{x=y, 1 h} S//a->y"
        ok(operator.put("/v1/subscriptions/q", json={"query": query}))
        local = threading.local()

        def send() -> None:
            if not hasattr(local, "client"):
                local.client = running.client()
            number = next(numbers)
            address = f"/v1/documents/S?id=d{number}"
            answer = local.client.post(address, content=f"<a>{number // 2}</a>")
            if answer.status_code == 202:
                taken.append(f"d{number}")
            else:
                refused.append(answer)

        with together(send, 16) as stop:
            for _ in range(60):
                assert not stop.wait(1.0)
                ok(operator.get("/v1/health"))
        assert {answer.status_code for answer in refused} <= {429, 503}
        assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
        assert len(refused) > 16, "there was more than there is room for"
        question = "SELECT count(*) FROM documents"

        def caught_up() -> bool:
            answer = operator.post("/v1/sql", json={"query": question})
            return answer.status_code == 200 and answer.json()["rows"] == [[len(taken)]]

        eventually(caught_up, CATCHES_UP)
        assert len(taken) > 1_000


FEEDS, HOSTILE = 1_000, 5
"""Feeds, of which every fifth misbehaves."""
FASTER = 60
"""How much faster than the clock of this machine the service's is: an hour is a minute."""


class Fast:
    """A clock that runs so many times as fast as that of this machine."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._began = time.monotonic_ns()

    def __call__(self) -> int:
        return START + (time.monotonic_ns() - self._began) // 1_000 * self._times


class Publishers(Server):
    """Serves `/N` with a feed, or every fifth with what is none; notes when each was asked."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__()
        self._clock = clock
        self.times: defaultdict[int, list[int]] = defaultdict(list)

    async def _answer(
        self, path: str, headers: dict[str, str], writer: asyncio.StreamWriter
    ) -> None:
        number = int(path[1:])
        self.times[number].append(self._clock())
        if number % HOSTILE:
            writer.write(reply(rss(f"{number} of {len(self.times[number])}")))
        else:
            answer, _ = list(USELESS.values())[number // HOSTILE % len(USELESS)]
            if callable(answer):
                await answer(writer)
                return
            writer.write(answer)
        await writer.drain()


@pytest.mark.slow
def test_l4_of_a_thousand_feeds_the_healthy_ones_are_polled_in_time(place: DataDirectory) -> None:
    """Each is polled within twice its interval, though every fifth costs what a feed can cost."""
    clock = Fast(FASTER)

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return ("127.0.0.1",)

    with scripted(Publishers(clock)) as server:
        assert isinstance(server, Publishers)
        names = tuple(f"f{number}.example:{server.port}" for number in range(FEEDS))
        fetching = PollSettings(names, quick=True, seconds=5, resolve=resolve, largest=300_000)
        arrivals = ArrivalClock(clock, clock)
        with (
            serving(place, fetching=fetching, clock=arrivals, patience=120) as running,
            running.client() as operator,
        ):
            lines = "\n".join(f"http://{name}/{n}" for n, name in enumerate(names))
            ok(operator.post("/v1/feeds:import", content=lines))
            eventually(lambda: len(server.times) == FEEDS, 300)
            time.sleep(4 * 60)
            counted = ok(operator.get("/v1/status"))["service"]
            assert counted["feeds"] == FEEDS
            end = clock()
        healthy = [times for number, times in server.times.items() if number % HOSTILE]
        assert len(healthy) == FEEDS * (HOSTILE - 1) // HOSTILE
        for times in healthy:
            gaps = [later - sooner for sooner, later in zip(times, [*times[1:], end], strict=True)]
            assert max(gaps) <= 2 * HOUR


def spooled(spool: Path) -> int:
    """Return the bytes of a spool, whose files may be deleted meanwhile."""
    found = 0
    for path in spool.iterdir():
        with suppress(FileNotFoundError):
            found += path.stat().st_size
    return found


@pytest.mark.slow
def test_l6_a_day_at_a_thousand_times_the_speed_leaves_a_steady_size(
    place: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables, spool and quarantine of the second half of a day are no larger than in the first."""
    monkeypatch.setattr(pipeline, "KEPT", 1_000_000)
    monkeypatch.setattr(consumed_offsets, "KNOWN", 50)
    clock, numbers = Fast(1_000), count()
    sizes: list[dict[str, int]] = []
    with (
        serving(place, clock=ArrivalClock(clock, clock), keep_matches="1 h") as running,
        running.client() as operator,
    ):
        engine = engine_of(running)
        engine.retain(Retention(history=HOUR, matches=HOUR, identities=HOUR, rows=50))
        for name, query in (
            ("pairs", "S//a->x FOLLOWED BY{x=y, 10 min} S//a->y"),
            ("silence", "S//b->x NOT FOLLOWED BY{x=y, 30 min} S//c->y"),
            ("next", "S//b->x NEXT{x=y} S//b->y PUBLISH hits"),
            ("hits", "hits//b->h JOIN{h=i, 10 min} S//b->i"),
        ):
            ok(operator.put(f"/v1/subscriptions/{name}", json={"query": query}))

        def send() -> None:
            number = next(numbers)
            text = f"<r><a>{number // 3}</a><b>{number % 7}</b></r>" if number % 9 else "<r><a>"
            answer = operator.post("/v1/documents/S", content=text)
            assert answer.status_code in (202, 422, 429), answer.text
            time.sleep(0.02)

        with together(send, 1), closing(engine.host.connect()) as store:
            for hour in range(3, 25, 3):
                eventually(lambda hour=hour: clock() - START >= hour * HOUR)  # type: ignore[misc]  # mypy infers no type for the default
                rows = {name: rows.num_rows for name, rows in stored_tables(store).items()}
                rows["spool"] = spooled(place.spool) // 1_000
                sizes.append(rows)
    assert clock() - START >= DAY
    first, second = sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :]
    assert max(one["result"] for one in first) > 20
    for name in sizes[0]:
        most = max(one[name] for one in first)
        assert max(one[name] for one in second) <= 1.5 * most + 20, (name, sizes)
