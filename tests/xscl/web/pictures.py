"""Makes the pictures of the documents from a running service: `python -m tests.xscl.web.pictures`.

Run it when the page has changed, and look at what it has made.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.project import ROOT
from tests.xscl.service.conftest import eventually, serving
from tests.xscl.web.browser import Browser, chromium
from tests.xscl.web.shown import Shop
from xscl.ingestion.data_directory import DataDirectory
from xscl.web.gallery import cases

IMAGES = ROOT / "docs" / "images"
NARROW = (860, 900)
VIEWS = {
    "editor": "/subscribe?example=same-story",
    "items": "/items",
    "data": "/witnesses?example=4",
    "help": "/help/xscl",
}
"""Addresses of the pages that are shown, by the names of their pictures."""


def main() -> None:
    """Make all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(DataDirectory(Path(folder) / "data")) as running,
        running.client() as client,
        chromium() as browser,
    ):
        shop = Shop(running.address, client)
        gallery(browser, shop)
        front(browser, shop)
        views(browser, shop)


def gallery(browser: Browser, shop: Shop) -> None:
    """Take what each use case finds."""
    browser.look(size=NARROW)
    browser.open(f"{shop.address}/gallery")
    for case in cases():
        found = browser.one(f"section[aria-labelledby='case-{case.slug}'] article")
        found.screenshot(str(IMAGES / f"gallery-{case.slug}.png"))


def front(browser: Browser, shop: Shop) -> None:
    """Take the page of matches, as the README begins."""
    shown = ("same-story", "advisory-then-release", "announced-then-reviewed")
    for case in cases():
        if case.slug in shown:
            shop.subscribe(case.slug, case.query)
    shop.samples()
    eventually(lambda: shop.count() >= len(shown))
    browser.look(size=(1100, 800))
    browser.open(f"{shop.address}/")
    browser.until(browser.is_live)
    time.sleep(0.5)  # the first picture of a page may lack its fonts
    browser.chrome.save_screenshot(str(IMAGES / "matches.png"))


def views(browser: Browser, shop: Shop) -> None:
    """Take the pages that the tutorial and the how-tos show."""
    for name, address in VIEWS.items():
        browser.open(f"{shop.address}{address}")
        browser.until(lambda: browser.run("return document.readyState") == "complete")
        time.sleep(1)  # the editor and its join graph come after the page
        browser.chrome.save_screenshot(str(IMAGES / f"{name}.png"))


if __name__ == "__main__":
    main()
