"""The page of a feed: how it is doing, a form to change it, refreshing it now."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tests.xscl.service.conftest import eventually, ok
from tests.xscl.web.browser import Browser
from tests.xscl.web.shown import TRICKY, Shop, parsed
from xscl.web.views.following import ORDERS


@pytest.fixture(scope="module")
def feed(shop: Shop, deaf: str) -> Iterator[str]:
    """The key of a feed that nobody answers for."""
    url = f"http://{deaf}/feed.xml"
    new = {"url": url, "stream": "silent", "tags": "sea", "keep": "true"}
    assert shop.send("/feeds/add", **new).status_code == 303
    (key,) = (one["key"] for one in ok(shop.client.get("/v1/feeds"))["items"])
    yield key
    shop.send("/feeds/remove", feed=key)


def test_the_list_leads_to_the_page_of_a_feed(shop: Shop, feed: str) -> None:
    path = f"/feeds/{feed}"
    assert path in shop.page("/feeds").xpath("//h2/a/@href")
    eventually(lambda: "failure in a row" in shop.page(path).text_content())
    assert "None has come yet" in shop.page(path).text_content()
    assert shop.client.get("/feeds/nothing").status_code == 404


def test_a_page_names_no_command_where_a_feed_is_refused(shop: Shop, deaf: str) -> None:
    for url in (f"http://{deaf}/none.xml", "http://[", "http://10.0.0.1/private"):
        refused = parsed(shop.send("/feeds/add", url=url).text)
        told = refused.xpath("string(//*[@id='problem'])")
        assert told.strip()
        assert "'xscl" not in told
        assert refused.xpath("//input[@id='url']/@value") == [url]
    assert refused.xpath("//input[@name='keep']")


def test_a_feed_is_changed_on_its_page(shop: Shop, feed: str) -> None:
    form = {"feed": feed, "tags": "sea, land", "every": "2 h"}
    assert shop.send("/feeds/edit", **form).headers["location"] == f"/feeds/{feed}"
    changed = ok(shop.client.get(f"/v1/feeds/{feed}"))
    assert (changed["tags"], changed["every"]) == (["sea", "land"], 7_200)
    assert shop.page(f"/feeds/{feed}").xpath("//input[@id='every']/@value") == ["2 h"]
    wrong = shop.send("/feeds/edit", **form | {"every": "often"})
    assert wrong.status_code == 422
    page = parsed(wrong.text)
    assert page.xpath("//*[@id='problem']")
    assert page.xpath("//input[@id='every']/@value") == ["often"]


def test_a_feed_is_refreshed_now(shop: Shop, feed: str) -> None:
    before = ok(shop.client.get(f"/v1/feeds/{feed}"))["failures"]
    asked = shop.send("/feeds/poll", feed=feed)
    page = parsed(shop.client.get(asked.headers["location"]).text)
    assert "polled as soon as" in page.xpath("string(//p[@role='status'])")
    eventually(lambda: ok(shop.client.get(f"/v1/feeds/{feed}"))["failures"] > before)


def test_the_list_is_ordered_searched_and_marks_what_was_just_followed(
    shop: Shop, feed: str
) -> None:
    def listed(**asked: str) -> list[str]:
        return list(shop.page("/feeds", **asked).xpath("//li//h2/a/@href"))

    for order in ORDERS:
        pressed = "//button[@name='sort' and @aria-pressed='true']/@value"
        assert shop.page("/feeds", sort=order).xpath(pressed) == [order]
        assert listed(sort=order) == [f"/feeds/{feed}"]
    assert listed(text="SILENT") == [f"/feeds/{feed}"]
    assert listed(text="nothing like it") == listed(tag="none") == []
    page = shop.page("/feeds", added=feed)
    assert page.xpath("string(//li//span[@class='state state-ok'])") == "new"
    assert page.xpath("//p[@role='status']//a/@href") == [f"/feeds/{feed}"]


@patch("xscl.service.status.STEP", 0.0)
def test_times_are_those_of_the_zone_of_the_reader(browser: Browser, shop: Shop, feed: str) -> None:
    eventually(lambda: len(ok(shop.client.get("/v1/status/series"))) >= 2)
    shop.send("/subscriptions/address")
    answer = shop.send("/subscribe", name="told", query=TRICKY, do="save", history="true")
    saved = answer.headers["location"]
    shop.subscribe("awaited", "tricks//item->a NOT FOLLOWED BY{1 d} none//b->y")
    pending = "/why?subscription=awaited&doc=t00&doc=-"
    assert "when time passes" in shop.client.get(pending).text
    zone = "Emulation.setTimezoneOverride"
    browser.chrome.execute_cdp_cmd(zone, {"timezoneId": "Pacific/Kiritimati"})
    lists = ("/feeds", "/items", "/subscriptions", "/")
    for path in (f"/feeds/{feed}", "/status", "/account", saved, pending, *lists):
        browser.open(shop.address + path)
        browser.until(lambda: not browser.run(_IN_UTC))
    chosen = "return document.querySelector('[name=zone]').value"
    browser.until(lambda: browser.run(chosen) == "Pacific/Kiritimati")
    browser.chrome.execute_cdp_cmd(zone, {"timezoneId": ""})
    (id,) = shop.page("/subscriptions").xpath("//input[@name='id']/@value")
    shop.send("/subscriptions/address/revoke", name="", id=id)
    shop.remove("told")
    shop.remove("awaited")


_IN_UTC = """
const main = document.querySelector("main");
const texts = [main.textContent, ...[...main.querySelectorAll("[title]")].map((one) => one.title)];
return texts.filter((one) => /\\bUTC\\b|\\d\\d:\\d\\dZ/.test(one)).length;
"""


def test_the_page_of_a_feed_draws_its_last_polls_and_lists_errors(shop: Shop, feed: str) -> None:
    eventually(lambda: ok(shop.client.get(f"/v1/feeds/{feed}/polls")))
    newest = ok(shop.client.get(f"/v1/feeds/{feed}/polls"))[0]
    assert newest["failed"]
    page = shop.page(f"/feeds/{feed}")
    section = page.xpath("//section[@aria-labelledby='polls-title']")[0]
    assert newest["note"] in section.text_content()
    assert section.xpath("count(.//*[local-name()='rect'][@class='d-bad'])") >= 1
