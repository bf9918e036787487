"""The page in a real browser: the first user's walk, accessibility, keyboard, live, no script."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from lxml import etree
from selenium.webdriver.common.keys import Keys

from tests.xscl.service.conftest import ok, serving
from tests.xscl.web.browser import PHONE, WIDE, Browser
from tests.xscl.web.shown import TRICKS, Shop
from tests.xscl.web.test_pages import PAGES
from xscl.ingestion.data_directory import DataDirectory
from xscl.web.rendering import FURTHER_VIEWS, VIEWS

ATOM = "{http://www.w3.org/2005/Atom}"


pytestmark = pytest.mark.usefixtures("calm")


# -- The first user --------------------------------------------------------------------------


def test_a_first_user_gets_the_match_of_what_is_there_and_one_live(
    browser: Browser, tmp_path: Path
) -> None:
    with serving(DataDirectory(tmp_path / "data")) as running, running.client() as client:
        shop = Shop(running.address, client)
        browser.open(f"{shop.address}/")
        assert "Find what belongs together" in browser.text("h1")
        browser.one("form[action='/gallery/load'] button").click()
        _until_here(browser, shop, "sample")
        browser.one(".tile[href='/subscribe?example=correction']").click()
        browser.one("button[value='try']").click()
        assert browser.text("#tried-title").startswith("1 match in")
        assert browser.one("#tried mark").is_displayed()
        assert browser.one("[name='history']").is_selected()
        browser.one("button[value='save']").click()
        assert browser.text("h1") == "correction"
        assert browser.one("figure svg").is_displayed()
        browser.open(f"{shop.address}/")
        assert "Swing bridge closes for a year" in browser.text("article.match")
        client.delete("/v1/subscriptions/correction", params={"purge": True})
        browser.open(f"{shop.address}/subscribe?example=correction")
        browser.one("[name='history']").click()
        browser.one("button[value='save']").click()
        assert browser.text("h1") == "correction"
        browser.open(f"{shop.address}/")
        assert browser.text("#none h2") == "No match yet"
        browser.until(browser.is_live)
        shop.samples()
        assert "Swing bridge closes for a year" in browser.text("article.match")
        marks = [each.text for each in browser.all("article mark")]
        assert len(marks) == 2
        assert browser.shifted() < 0.01
        feed = client.get("/v1/subscriptions/correction/feed.atom")
        entries = etree.fromstring(feed.content).findall(f"{ATOM}entry")
        assert len(entries) == 1
        browser.open(f"{shop.address}/witnesses")
        box = browser.one("#sql")
        box.clear()
        box.send_keys("SELECT strVal, count(*) AS n FROM R_doc GROUP BY strVal")
        browser.one("form[action='/witnesses'] button").click()
        assert "Swing bridge closes for a year" in browser.text("table")
        assert browser.complaints() == []


def _until_here(browser: Browser, shop: Shop, what: str) -> None:
    """Load the front page until documents are there."""

    def here() -> bool:
        browser.open(f"{shop.address}/")
        return "documents are here" in browser.text(".step")

    browser.until(here)


# -- Every page, in every light, on every window ---------------------------------------------


@pytest.mark.parametrize("path", ["/", "/subscribe?example=rising"])
def test_a_page_is_accessible_in_light_and_on_a_dark_phone(
    browser: Browser, shop: Shop, path: str
) -> None:
    """All pages in all looks are in `test_accessibility`."""
    for scheme, size in (("light", WIDE), ("dark", PHONE)):
        browser.look(scheme, size)
        browser.open(shop.address + path)
        assert browser.violations() == []
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]
        assert browser.shifted() < 0.01


@pytest.mark.parametrize("path", ["/", "/items", "/subscribe?example=rising"])
def test_scripts_that_come_late_move_nothing(browser: Browser, shop: Shop, path: str) -> None:
    """Every part of a page has the same place before and after its scripts are loaded."""
    tops = "return [...document.querySelectorAll('main > *')].map((one) => one.offsetTop)"
    for size in (WIDE, PHONE):
        browser.look("light", size)
        with browser.without_script():
            browser.open(shop.address + path)
        before = browser.run(tops)
        browser.open(shop.address + path)
        browser.until(lambda: browser.run("return document.readyState") == "complete")
        assert browser.run(tops) == before


def test_what_a_reader_comes_for_is_high_on_a_phone(
    browser: Browser, shop: Shop, deaf: str
) -> None:
    feed = {"url": f"http://{deaf}/phone.xml", "keep": True}
    key = ok(shop.client.post("/v1/feeds", json=feed))["key"]
    top = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
    browser.look("light", PHONE)
    for path, most in (("/", 300), ("/items", 300), ("/feeds", 400), ("/subscriptions", 300)):
        browser.open(shop.address + path)
        assert 0 < browser.run(top, "article.match, main .list") <= most, path
    shop.client.delete(f"/v1/feeds/{key}")
    browser.open(f"{shop.address}/")
    browser.until(browser.is_live)
    assert browser.run(top, "#live") > PHONE[1] - 60


def test_the_description_of_the_api_fits_a_phone(browser: Browser, shop: Shop) -> None:
    browser.look("light", PHONE)
    browser.open(f"{shop.address}/docs")
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE[0]
    browser.open(f"{shop.address}/plan")
    ends = browser.run(
        "return [...document.querySelectorAll('nav a')].map((a) => a.getBoundingClientRect().right)"
    )
    assert len(ends) >= len(VIEWS) + len(FURTHER_VIEWS)
    assert max(ends) <= PHONE[0]


def test_w9_no_trick_does_anything(browser: Browser, shop: Shop) -> None:
    for path in ("/?subscription=tricky", "/subscriptions/tricky", "/document?id=t00"):
        browser.open(shop.address + path)
        assert "xscl" in browser.chrome.title
        assert "caught" not in browser.chrome.title
    browser.open(f"{shop.address}/?subscription=tricky")
    shown = browser.text()
    for trick in TRICKS:
        assert " ".join(trick.split()) in shown


@pytest.mark.slow
def test_reading_works_without_script(browser: Browser, shop: Shop) -> None:
    with browser.without_script():
        for path in PAGES:
            browser.open(shop.address + path)
            assert browser.text("h1")
        browser.open(f"{shop.address}/")
        assert len(browser.all("article.match")) == 20
        browser.one("a[rel='next']").click()
        assert browser.all("article.match")
        browser.open(f"{shop.address}/subscribe?example=correction")
        browser.one("button[value='try']").click()
        assert "in the last 30 days" in browser.text("#tried-title")
        assert browser.all("#tried article mark")


# -- Live ------------------------------------------------------------------------------------


def test_what_is_new_waits_in_the_bar_and_moves_nothing(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/")
    browser.until(browser.is_live)
    first = browser.one("article.match")
    place, top = first.get_attribute("data-place"), first.location["y"]
    now = int(time.time() * 1e6) - 60_000_000
    for side in (0, 1):
        xml = b"<item><title>A new pair</title></item>"
        shop.push("tricks", xml, f"new-{now}-{side}", now + side)
    browser.until(lambda: "1 new: tricky — A new pair" in browser.text("#live-words"))
    assert browser.one("article.match").get_attribute("data-place") == place
    assert browser.one("article.match").location["y"] == top
    assert browser.shifted() < 0.01
    browser.one("#live-show").click()
    assert "A new pair" in browser.one("article.match").text
    assert browser.text("#live-words") == "Waiting for new matches"
    assert browser.shifted() < 0.01


# -- By keyboard -----------------------------------------------------------------------------


def test_everything_works_by_keyboard(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/")
    browser.press(Keys.TAB)
    assert browser.chrome.switch_to.active_element.text == "Skip to the content"
    browser.tab_to("nav a[href='/subscriptions']")
    browser.press(Keys.ENTER)
    browser.until(lambda: browser.text("h1") == "Subscriptions")
    browser.tab_to("a[href='/subscribe']")
    browser.press(Keys.ENTER)
    browser.tab_to("#query-editor")
    browser.press("news//item->a[./title->t]\n  FOLLOWED BY{t = u, 1 d} news//item->b")
    browser.until(lambda: "'u' is not bound" in browser.text("#problem"))
    browser.press("[./title->u]")
    browser.until(lambda: browser.all("#checked svg"))
    browser.tab_to("#name")
    browser.press("by keyboard")
    browser.tab_to("button[value='save']")
    browser.press(Keys.SPACE)
    browser.until(lambda: browser.text("h1") == "by keyboard")
    browser.tab_to("details.danger summary")
    browser.press(Keys.ENTER)
    browser.tab_to("button.danger")
    browser.press(Keys.ENTER)
    browser.until(lambda: browser.text("h1") == "Subscriptions")
    assert "by keyboard" not in [one.text for one in browser.all(".list-main h2 a")]
    assert "by keyboard" in browser.text("[aria-labelledby='removed-title']")


@pytest.mark.slow
def test_the_cursor_goes_to_what_is_wrong(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/subscribe")
    query = "news//item->a\n  JOIN{t = u, 1 d} news//item->b"
    browser.write(query)
    browser.one("#name").send_keys("wrong")
    browser.one("button[value='save']").click()
    browser.until(lambda: browser.run("return document.activeElement.id") == "query-editor")
    browser.press("?")
    written = browser.run("return document.getElementById('query').value")
    assert written == query.replace("t = u", "?t = u")


@pytest.mark.slow
def test_the_theme_can_be_chosen(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/gallery")
    light = browser.run("return getComputedStyle(document.body).backgroundColor")
    browser.one("button[value='dark']").click()
    browser.until(lambda: browser.all("[data-theme='dark']"))
    dark = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert light != dark
    assert browser.violations() == []
    browser.one("button[value='auto']").click()
    browser.until(lambda: browser.all("[data-theme='auto']"))
