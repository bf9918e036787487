"""An hour of a stream before an open page: what the browser and the service hold does not grow."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise

import pytest

from benchmarks.kept_bytes import resident
from tests.xscl.service.conftest import eventually, serving
from tests.xscl.web.browser import Browser
from tests.xscl.web.shown import Shop
from xscl.ingestion.data_directory import DataDirectory

DOCUMENTS, SUBSCRIPTIONS = 2_700, 4
"""10,800 matches in 3,600 s of virtual time: three a second."""
HOUR = 3_600_000_000
LOOKS = 9
"""How often it is measured; the first third warms up."""


PATIENCE = 600.0
"""Seconds until the page has a ninth of the matches, however busy the machine is."""
_SAYS = "return document.querySelector(arguments[0])?.textContent.includes(arguments[1])"
"""Not by the driver's own looking for elements: it keeps each that it has found, and its nodes."""


@dataclass(frozen=True)
class Held:
    """Memory after so many matches: bytes of script after a collection, nodes, bytes."""

    matches: int
    heap: int
    nodes: int
    listeners: int
    resident: int


def held(browser: Browser, matches: int) -> Held:
    """Return the memory of the page and of this process, which runs the service."""
    ask = browser.chrome.execute_cdp_cmd
    ask("HeapProfiler.collectGarbage", {})
    heap = int(ask("Runtime.getHeapUsage", {})["usedSize"])
    counters = ask("Memory.getDOMCounters", {})
    return Held(matches, heap, counters["nodes"], counters["jsEventListeners"], resident())


def _pour(shop: Shop, first: int, end: int, began: int) -> None:
    """Send documents whose times are spread over the hour: many at the same time, then the last."""

    def send(number: int) -> None:
        xml = b"<item><title>Number %d</title><link>https://a.example/%d</link></item>"
        moment = began + number * HOUR // DOCUMENTS
        shop.push("hour", xml % (number, number), f"h{number}", moment)

    with ThreadPoolExecutor(8) as sending:
        list(sending.map(send, range(first, end - 1)))
    send(end - 1)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [True, False], ids=["shown at once", "counted in the bar"])
def test_an_hour_of_matches_lets_nothing_grow(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, follow: bool
) -> None:
    home = DataDirectory(tmp_path_factory.mktemp("hour") / "data")
    with serving(home) as running, running.client() as client:
        shop = Shop(running.address, client)
        for number in range(SUBSCRIPTIONS):
            shop.subscribe(f"every {number}", f"hour//item->x{number}[./title->t{number}]")
        began = int(time.time() * 1e6) - HOUR
        shop.push("hour", b"<item><title>The first</title></item>", "first", began)
        eventually(lambda: shop.count() == SUBSCRIPTIONS)
        browser.look()
        browser.open(f"{shop.address}/")
        browser.until(browser.is_live)
        if follow:
            browser.one("#live-follow").click()
        cuts = [DOCUMENTS * look // LOOKS for look in range(LOOKS + 1)]
        looks = []
        shown = "article.match" if follow else "#live-words"
        for first, end in pairwise(cuts):
            _pour(shop, first, end, began)
            sought = shown, f"Number {end - 1}"
            browser.wait(partial(browser.run, _SAYS, *sought), PATIENCE)
            looks.append(held(browser, end * SUBSCRIPTIONS))
            print(asdict(looks[-1]))
        assert browser.run("return document.querySelectorAll('article.match').length") <= 100
        if not follow:  # whoever has all shown at once has asked for what moves
            assert browser.shifted() < 0.01
    warm = looks[LOOKS // 3 :]
    assert max(one.nodes for one in warm) <= 1.2 * warm[0].nodes
    assert max(one.heap for one in warm) <= 1.2 * warm[0].heap
    assert warm[-1].listeners <= warm[0].listeners + 10
    assert warm[-1].resident <= 1.25 * warm[0].resident
