"""The picture of the plan in a browser: its size, and what is seen of it."""

from __future__ import annotations

import re

import pytest
from selenium.webdriver.common.keys import Keys

from tests.xscl.web.browser import Browser
from tests.xscl.web.shown import TRICKS, Shop
from tests.xscl.web.test_stars import flat


def test_a_node_of_the_plan_leads_to_its_time_state_and_subscriptions(shop: Shop) -> None:
    page = shop.page("/plan")
    links = page.xpath("//*[local-name()='svg']/*[local-name()='a']/@href")
    assert len(links) > 5
    kinds = set()
    for link in links:
        shown = shop.page(link)
        panel = shown.get_element_by_id("node")
        kinds.add(name := flat(panel.xpath("./h2")[0]).rstrip("0123456789"))
        words = flat(panel.xpath("./dl")[0])
        assert "Keeps" in words
        assert ("Time" in words) == (name.endswith((" ", "#")))
        names = panel.xpath("./ul//a/@href")
        assert f"Subscriptions{len(names)}" in words.replace(" ", "")
        assert all(name.startswith("/subscriptions/") for name in names)
    assert {"template ", "xpath_scan#", "tricks"} <= kinds
    tricks = shop.page("/plan?node=tricks").get_element_by_id("node")
    assert [one.text for one in tricks.xpath(".//ul//a")] == ["tricky"]
    kept = re.search(r"([\d,]+) documents", flat(tricks))
    assert kept is not None
    assert int(kept[1].replace(",", "")) >= 2 * len(TRICKS)  # other tests may have sent more
    rows = shop.page("/subscriptions")
    shares = re.findall(r"([\d.]+) % of the cost", flat(rows))
    assert 90 < sum(map(float, shares)) < 110
    assert "of the time that all" in shop.client.get("/subscriptions/tricky").text
    assert 0 < shop.client.get("/v1/subscriptions/tricky").json()["cost_share"] < 1
    gone = shop.client.get("/plan?node=select%239", headers={"Accept": "text/html"})
    assert gone.status_code == 404


@pytest.mark.slow
@pytest.mark.usefixtures("calm")
def test_a_node_of_the_plan_is_opened_by_keyboard_and_by_a_click(
    browser: Browser, shop: Shop
) -> None:
    browser.open(f"{shop.address}/plan")
    browser.tab_to(".plan a.d-link")
    browser.press(Keys.ENTER)
    first = browser.text("#node h2")
    browser.all(".plan a.d-link")[2].click()
    browser.until(lambda: browser.text("#node h2") != first)


@pytest.mark.slow
@pytest.mark.usefixtures("calm")
def test_the_plan_is_zoomed_by_buttons_and_keys_and_moved_by_dragging(
    browser: Browser, shop: Shop
) -> None:
    def width() -> float:
        return float(browser.one(".plan svg").size["width"])

    browser.look(size=(700, 700))
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
