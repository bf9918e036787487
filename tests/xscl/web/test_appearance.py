"""The delay from a poll to the display of a match: terminal of `xscl serve` and open page.

The times from the answer of the poll are printed (`pytest -s`); that the match appears is asserted.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from tests.first_hour import CASE, begun, gallery_query
from tests.waiting import eventually
from tests.xscl.web.browser import Browser
from xscl.client import Client, Feed

ITEMS = 10
SEEN = "return document.getElementById('matches').textContent.includes(arguments[0])"


class Lines:
    """The lines that a process has printed, with their times."""

    def __init__(self, printed: IO[str]) -> None:
        self.seen: list[tuple[float, str]] = []
        threading.Thread(target=self._read, args=(printed,), daemon=True).start()

    def _read(self, printed: IO[str]) -> None:
        for line in printed:
            self.seen.append((time.monotonic(), line))

    def time_of(self, text: str) -> float | None:
        """Return when a line with a text was printed, None before."""
        return next((at for at, line in self.seen if text in line), None)


@pytest.mark.slow
def test_a_match_appears_in_the_terminal_and_on_the_page(browser: Browser, tmp_path: Path) -> None:
    with begun(tmp_path) as hour, hour.served() as printed:
        lines = Lines(printed)
        feeds = {name: hour.publisher.url(name) for name in hour.publisher.items}
        for url in feeds.values():
            hour.xscl("feeds", "add", url)
        hour.xscl("subscribe", "same-story", gallery_query(CASE))
        address = json.loads(hour.xscl("status", "--json"))["address"]
        browser.look()
        with Client(address) as client:
            keys = {feed.url: feed.key for feed in client.feeds()}
            eventually(lambda: all(feed.polled for feed in client.feeds()))
            browser.open(f"{address}/")
            browser.until(browser.is_live)
            browser.one("#live-follow").click()
            in_terminal, on_page = [], []
            for number in range(ITEMS):
                title = f"Lighthouse {number} is lit"
                for feed, hours_ago in (("harbour-post", 0.1), ("port-times", 0.0)):
                    hour.publisher.publish(feed, title, hours_ago)
                    before = client.poll(keys[feeds[feed]])
                    eventually(partial(_is_polled_after, client, before))
                answered = hour.publisher.answered["port-times"]
                browser.until(partial(browser.run, SEEN, title))
                on_page.append(time.monotonic() - answered)
                in_terminal.append(eventually(partial(lines.time_of, title)) - answered)
    for where, seconds in (("terminal", in_terminal), ("page", on_page)):
        median, most = statistics.median(seconds), max(seconds)
        print(f"{where}: median {median:.2f} s, at most {most:.2f} s of {len(seconds)} items")


def _is_polled_after(client: Client, before: Feed) -> bool:
    """Return True if a feed was polled since it was read."""
    return client.feed(before.key).polls > before.polls
