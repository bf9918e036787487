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
