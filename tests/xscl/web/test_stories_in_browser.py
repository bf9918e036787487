"""A story on the page: one card with all its sources, which is replaced as it grows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from selenium.webdriver.common.keys import Keys

from tests.xscl.service.conftest import eventually, ok, serving
from tests.xscl.web.browser import PHONE, WIDE, Browser
from tests.xscl.web.shown import Shop
from xscl.ingestion.data_directory import DataDirectory

SAME = (
    "news//item->one[./title->t1][./channel_url->c1] JOIN{t1 = t2 AND c1 < c2, 3 d}"
    " news//item->other[./title->t2][./channel_url->c2]"
)
CARD = "#matches article[data-story]"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("calm")]


def headline(client: httpx.Client, number: int, title: str = "Night ferry returns") -> None:
    site = f"https://paper-{number}.example"
    leaves = f"<channel_url>{site}</channel_url><item_url>{site}/ferry</item_url>"
    item = f"<item><id>{number}</id>{leaves}<title>{title}</title></item>"
    ok(client.post(f"/v1/documents/news?id={number}", content=item.encode()))


@pytest.fixture
def one_headline(tmp_path: Path, browser: Browser) -> Iterator[Shop]:
    """A service where one headline is in eight feeds."""
    with serving(DataDirectory(tmp_path / "data")) as running, running.client() as client:
        subscribed = {"query": SAME, "stories": True}
        ok(client.put("/v1/subscriptions/same-story", json=subscribed))
        headline(client, 0, "Fish market moves")
        headline(client, 10, "Fish market moves")
        for number in range(1, 9):
            headline(client, number)
        eventually(lambda: len(ok(client.get("/v1/matches?limit=100"))["matches"]) == 29)
        yield Shop(running.address, client)
        browser.open("about:blank")  # it would ask the service that ends


def test_one_headline_in_eight_feeds_is_one_card(browser: Browser, one_headline: Shop) -> None:
    for scheme, size in itertools.product(("light", "dark"), (WIDE, PHONE)):
        browser.look(scheme, size)
        browser.open(one_headline.address)
        assert len(browser.all(CARD)) == len(browser.all("article.match")) == 2
        assert "8 sources" in browser.text(f"{CARD} .tag")
        links = [one.get_attribute("href") for one in browser.all(f"{CARD}:first-of-type a[rel]")]
        assert links == [f"https://paper-{number}.example/ferry" for number in range(1, 9)]
        assert browser.violations() == [], (scheme, size)
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]


def test_a_ninth_feed_is_added_to_the_card_in_place(browser: Browser, one_headline: Shop) -> None:
    browser.look()
    browser.open(one_headline.address)
    browser.until(browser.is_live)
    browser.press("j")
    assert browser.run("return document.activeElement.dataset.story") is not None
    headline(one_headline.client, 9)
    browser.until(lambda: "1 new" in browser.text("#live-words"))
    browser.one("#live-show").click()
    browser.until(lambda: "9 sources" in browser.text(f"{CARD} .tag"))
    assert len(browser.all("article.match")) == 2
    browser.open(f"{one_headline.address}/subscriptions/same-story")
    assert "grouped into stories" in browser.text()
    assert len(browser.all("article.match")) == 2


def test_the_gallery_s_same_story_is_grouped_unless_its_reader_says_otherwise(
    browser: Browser, one_headline: Shop
) -> None:
    browser.look()
    browser.open(f"{one_headline.address}/subscribe?example=same-story")
    assert browser.one("input[name=stories]").is_selected()
    browser.open(f"{one_headline.address}/subscribe?example=rising")
    assert not browser.one("input[name=stories]").is_selected()
    browser.open(f"{one_headline.address}/subscribe?edit=same-story")
    browser.one("input[name=stories]").click()
    browser.one("button[value=save]").click()
    browser.until(lambda: "saved=edit" in browser.chrome.current_url)
    assert "grouped into stories" not in browser.text()
    browser.open(one_headline.address)
    assert len(browser.all("article.match")) == 20


# -- Tags, not this again, histories of feeds and SQL in a browser -------------------------


COUNTED = "/witnesses?sql=SELECT+id%2C+history+FROM+documents&facet=history"


def not_again(shop: Shop) -> str:
    """Return the address that a match of `same-story` leads to."""
    card = shop.page("/?subscription=same-story")
    (link,) = card.xpath("(//article)[1]//a[starts-with(@href, '/not-again?')]/@href")
    return f"{shop.address}{link}"


@pytest.mark.slow
def test_statements_are_remembered_and_saved(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/witnesses?sql=SELECT+41+AS+n")
    browser.one("#answer-title")
    browser.open(f"{shop.address}/witnesses")
    browser.one("#history summary").click()
    assert "SELECT 41 AS n" in browser.text("#history ul")
    browser.one("#history a").click()
    browser.until(lambda: "41" in browser.text("table"))
    browser.one("#name").send_keys("forty", Keys.ENTER)  # saves it
    browser.until(lambda: browser.all("input[value='forty']"))
    with browser.without_script():
        browser.open(shop.address + COUNTED)
        browser.one("nav[aria-label='Rows by history'] a").click()
        browser.until(lambda: "WHERE" in str(browser.one("#sql").get_attribute("value")))
        browser.one("#name").send_keys("narrow")
        browser.one("[formaction='/witnesses/save']").click()
        browser.until(lambda: browser.all("input[value='narrow']"))
        for name in ("forty", "narrow"):
            browser.one(f"input[value='{name}'] ~ button").click()
            browser.until(lambda name=name: not browser.all(f"input[value='{name}']"))  # type: ignore[misc]
