"""The picture of the plan in a browser: its size, and what is seen of it."""

from __future__ import annotations

import pytest

from tests.xscl.web.browser import Browser
from tests.xscl.web.shown import Shop


@pytest.mark.slow
def test_the_plan_is_zoomed_by_buttons_and_keys_and_moved_by_dragging(
    browser: Browser, shop: Shop
) -> None:
    def width() -> float:
        return float(browser.one(".plan svg").size["width"])

    browser.look(size=(700, 700))
    browser.complaints()
    browser.open(f"{shop.address}/plan")
    whole = browser.until(width)
    browser.one("[data-zoom='in']").click()
    assert width() == pytest.approx(1.25 * whole, abs=1)
    browser.one("[data-zoom='all']").click()
    assert width() < min(whole, 700)
    browser.tab_to(".plan .scroll")
    browser.press("0")
    assert width() == pytest.approx(whole, abs=1)
    browser.press("+", "-", "-")
    assert width() == pytest.approx(whole / 1.25, abs=1)
    browser.press("0")
    scrolled = "return document.querySelector('.plan .scroll').scrollLeft"
    before = browser.run(scrolled)
    drag = {"x": 300, "y": 400, "button": "left", "clickCount": 1}
    for kind, x in (("mousePressed", 300), ("mouseMoved", 250), ("mouseReleased", 250)):
        event = {**drag, "type": kind, "x": x}
        browser.chrome.execute_cdp_cmd("Input.dispatchMouseEvent", event)
    browser.until(lambda: abs(browser.run(scrolled) - before - 50) <= 2)
    assert browser.complaints() == []
    browser.look()
