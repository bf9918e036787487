"""Load through a running service: a burst, many feeds, some hostile, a day (group L)."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.xscl.polling.scripted import HOUR, START, Server, reply, rss
from tests.xscl.polling.scripted import serving as scripted
from tests.xscl.polling.test_scripted_feeds import USELESS
from tests.xscl.service.conftest import eventually, ok, serving
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.feed_poller import PollSettings

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
