"""Tags, not this again, histories of feeds and SQL in a browser: axe, keys, and without scripts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from tests.xscl.service.conftest import ok
from tests.xscl.web.browser import Browser
from tests.xscl.web.shown import Shop, parsed

COUNTED = "/witnesses?sql=SELECT+id%2C+history+FROM+documents&facet=history"


pytestmark = pytest.mark.usefixtures("calm")


@pytest.fixture
def tagged(shop: Shop) -> Iterator[str]:
    """A subscription with tags."""
    shop.client.patch("/v1/subscriptions/rising", json={"tags": ["daily", "sea"]})
    yield "rising"
    shop.client.patch("/v1/subscriptions/rising", json={"tags": []})


def not_again(shop: Shop) -> str:
    """Return the address that a match of `same-story` leads to."""
    card = parsed(shop.client.get("/?subscription=same-story").text)
    (link,) = card.xpath("(//article)[1]//a[starts-with(@href, '/not-again?')]/@href")
    return f"{shop.address}{link}"


@pytest.mark.slow
def test_a_subscription_is_tagged_by_keyboard(browser: Browser, shop: Shop, tagged: str) -> None:
    browser.open(f"{shop.address}/subscriptions?tag=sea")
    browser.tab_to("[name='names']").send_keys(Keys.SPACE)
    browser.one("#tags").send_keys("weekly", Keys.ENTER)  # tags them, and pauses nothing
    browser.until(lambda: "weekly" in browser.text(".list"))
    found = ok(shop.client.get("/v1/subscriptions/rising"))
    assert (found["tags"], found["paused"]) == (["daily", "sea", "weekly"], False)


@pytest.mark.slow
def test_a_match_is_excluded_by_keyboard(browser: Browser, shop: Shop) -> None:
    query = ok(shop.client.get("/v1/subscriptions/same-story"))["query"]
    browser.open(not_again(shop))
    browser.tab_to("a.button").send_keys(Keys.ENTER)
    browser.until(lambda: browser.all("#editor"))
    assert "nothing changes until you save it" in browser.text(".chosen")
    browser.tab_to("button[value='save']").send_keys(Keys.ENTER)
    browser.until(lambda: "Version 2 is on" in browser.text(".chosen"))
    saved = ok(shop.client.get("/v1/subscriptions/same-story"))
    assert "not(./title = " in saved["query"]
    shop.client.patch("/v1/subscriptions/same-story", json={"query": query})


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
