"""The first hour on the page, from an empty directory, by the words of the README only.

Set XSCL_SHOTS to a directory to have a picture of each step, in light, dark and on a phone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.xscl.polling.scripted import Server, reply, rss
from tests.xscl.polling.scripted import serving as publishing
from tests.xscl.service.conftest import Running, ok, serving
from tests.xscl.web.browser import PHONE, WIDE, Browser
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings

HARBOUR, BAY = "/harbour.xml", "/bay.xml"
LOOKS = (("light", WIDE), ("dark", WIDE), ("light", PHONE))


@dataclass
class Hour:
    """A browser before a new service, and two feeds that it may follow."""

    browser: Browser
    running: Running
    feeds: Server
    steps: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        self.browser.open(self.running.address + path)

    def publish(self, path: str, *titles: str) -> None:
        """Publish a feed with these items."""
        self.feeds.says(path, reply(rss(*titles), "Content-Type: application/rss+xml"))

    def step(self, name: str) -> None:
        """End a step: nothing that axe finds, no complaint of the browser, and pictures."""
        self.steps.append(name)
        assert self.browser.violations() == [], name
        assert self.browser.complaints() == [], name
        if folder := os.environ.get("XSCL_SHOTS"):
            for scheme, size in LOOKS:
                self.browser.look(scheme, size)
                time.sleep(0.3)  # what has changed its colours is drawn
                file = f"{len(self.steps):02}-{name}-{scheme}-{size[0]}.png"
                self.browser.chrome.save_screenshot(str(Path(folder) / file))
            self.browser.look()

    def follow(self, path: str, stream: str) -> None:
        """Follow a feed by the form of the page, and wait for its first items."""
        self.open("/feeds")
        self.browser.one("#url").send_keys(self.feeds.url(path))
        self.browser.one("#stream").send_keys(stream)
        self.browser.one("form[action='/feeds/add'] button").click()
        self.browser.until(lambda: stream in self.browser.text(".list"))
        self.wait_for_items(stream, 1)

    def refresh(self, stream: str) -> None:
        """Poll a feed by its button, in a tab of its own, and wait for one more item."""
        with self.running.client() as client:
            feeds = ok(client.get("/v1/feeds"))["items"]
        (feed,) = (one for one in feeds if one["stream"] == stream)
        window = self.browser.chrome.current_window_handle
        self.browser.chrome.switch_to.new_window("tab")
        self.open(f"/feeds/{feed['key']}")
        self.browser.one("form[action='/feeds/poll'] button").click()
        assert "polled as soon as" in self.browser.text(".chosen")
        self.wait_for_items(stream, feed["items"] + 1)
        self.browser.chrome.close()
        self.browser.chrome.switch_to.window(window)

    def wait_for_items(self, stream: str, number: int) -> None:
        """Load the list of a stream until it has so many items."""

        def has_items() -> bool:
            self.open(f"/items?stream={stream}")
            return len(self.browser.all("li[data-key]")) >= number

        self.browser.until(has_items)


@pytest.fixture
def hour(browser: Browser, tmp_path: Path) -> Iterator[Hour]:
    """A new service and two feeds with one story each."""
    with publishing() as feeds:
        allowed = PollSettings((feeds.address,))
        with serving(DataDirectory(tmp_path / "data"), fetching=allowed) as running:
            browser.look()
            browser.chrome.get("about:blank")  # a page of another service listens to it in vain
            browser.complaints()
            yield Hour(browser, running, feeds)


@pytest.mark.slow
def test_the_first_hour_on_the_page(hour: Hour) -> None:
    browser = hour.browser
    hour.publish(HARBOUR, "1 Night ferry returns")
    hour.publish(BAY, "9 Fish market moves")

    hour.open("/")
    assert "Find what belongs together" in browser.text("h1")
    hour.step("guide")
    hour.follow(HARBOUR, "harbour")
    hour.follow(BAY, "bay")
    hour.step("items")

    hour.open("/gallery")
    hour.step("gallery")
    browser.one("a[href='/subscribe?example=same-story']").click()
    assert "the same lower-case(title)" in browser.text(".sentence")
    browser.one("button[value='try']").click()
    assert browser.text("#tried-title").startswith("0 matches")
    assert "What each part finds" in browser.text("#tried")
    hour.step("why-none")
    browser.one("button[value='save']").click()
    browser.until(lambda: browser.text("h1") == "same-story")
    assert browser.text(".chosen") == "No match in the last 30 days; new ones will follow."
    hour.step("subscription")

    hour.open("/")
    browser.until(browser.is_live)
    hour.publish(HARBOUR, "1 Night ferry returns", "2 Storm at noon")
    hour.refresh("harbour")
    hour.publish(BAY, "9 Fish market moves", "2 STORM AT NOON")
    hour.refresh("bay")
    assert "STORM AT NOON" in browser.text("article.match")
    hour.step("match")

    browser.one("form.star button").click()
    browser.until(lambda: browser.one("form.star button").text.startswith("★"))
    hour.open("/starred")
    assert "STORM AT NOON" in browser.text("article.match")
    hour.step("starred")
    browser.one(".match-why").click()
    assert "every condition holds" in browser.text("#conditions-title")
    hour.step("why")

    hour.open("/subscriptions/same-story")
    browser.one("a[href^='/subscribe?edit=']").click()
    browser.one("#query-editor").click()
    browser.press(Keys.CONTROL + Keys.HOME)
    browser.write("SELECT <again>{t1}</again> FROM ")
    browser.until(lambda: "write <again> of it" in browser.text(".sentence"))
    hour.step("edit")
    browser.one("button[value='save']").click()
    browser.until(lambda: "version 2" in browser.text(".head"))
    hour.open("/?subscription=same-story")
    assert "STORM AT NOON" in browser.text("article.match")
    hour.step("edited-matches-stay")

    hour.open("/subscriptions/same-story")
    browser.one("form[action='/subscriptions/pause'] button").click()
    browser.until(lambda: "paused" in browser.text(".head"))
    hour.step("paused")

    hour.open("/witnesses?example=1")
    assert "same-story" in browser.text("table")
    hour.step("sql")
    with hour.running.client() as client:
        assert client.get("/feeds/export.opml").text.count("xmlUrl") == 2
