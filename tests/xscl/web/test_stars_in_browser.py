"""Stars, density and the operator's page in a browser: by keys, and without scripts."""

from __future__ import annotations

import pytest

from tests.xscl.web.browser import Browser
from tests.xscl.web.shown import Shop

STAR = "article.match form.star button"


pytestmark = pytest.mark.usefixtures("calm")


@pytest.mark.slow
def test_a_match_is_starred_by_its_key_in_place(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/?subscription=rising")
    browser.one("#reading.reading-on")
    browser.press("j", "s")
    browser.until(lambda: browser.one(STAR).get_attribute("aria-pressed") == "true")
    assert "subscription=rising" in browser.chrome.current_url
    assert browser.shifted() < 0.01
    browser.open(f"{shop.address}/starred")
    assert browser.text("article h2") == "rising"
    browser.press("j", "s")
    browser.until(lambda: browser.one(STAR).get_attribute("aria-pressed") == "false")
    browser.open(f"{shop.address}/starred")
    assert "No match is starred" in browser.text(".empty")


@pytest.mark.slow
def test_stars_density_and_users_work_without_script(browser: Browser, shop: Shop) -> None:
    with browser.without_script():
        browser.open(f"{shop.address}/?subscription=rising")
        browser.one(STAR).click()
        browser.until(lambda: browser.one(STAR).get_attribute("aria-pressed") == "true")
        browser.one("[name='density'][value='dense']").click()
        browser.until(lambda: browser.all("html[data-density='dense']"))
        browser.one("[name='density'][value='wide']").click()
        browser.until(lambda: browser.all("html[data-density='wide']"))
        browser.one(STAR).click()
        browser.until(lambda: browser.one(STAR).get_attribute("aria-pressed") == "false")
        browser.open(f"{shop.address}/operator")
        browser.one("#user").send_keys("dora")
        browser.one("form[action='/operator/token'] button").click()
        assert "xscl_" in browser.text("dd code")
        browser.open(f"{shop.address}/status?span=day")
        assert "Over the last day" in browser.text("#series-title")
        browser.open(f"{shop.address}/plan")
        assert browser.one(".plan svg").is_displayed()
    shop.client.delete("/v1/accounts/dora")


@pytest.mark.slow
def test_the_new_pages_are_reached_by_keyboard(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/")
    browser.tab_to("[name='density'][value='dense']")
    browser.tab_to(STAR)
    browser.open(f"{shop.address}/operator")
    browser.tab_to("#user")
    browser.open(f"{shop.address}/subscriptions")
    browser.tab_to("[name='names']")
