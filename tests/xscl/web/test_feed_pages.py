"""The page of a feed: how it is doing, a form to change it, refreshing it now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.xscl.service.conftest import eventually, ok
from tests.xscl.web.shown import Shop, parsed


@pytest.fixture(scope="module")
def feed(shop: Shop, deaf: str) -> Iterator[str]:
    """The key of a feed that nobody answers for."""
    url = f"http://{deaf}/feed.xml"
    new = {"url": url, "stream": "silent", "tags": "sea", "keep": "true"}
    followed = shop.client.post("/feeds/add", data=new)
    assert followed.status_code == 303
    (key,) = (one["key"] for one in ok(shop.client.get("/v1/feeds"))["items"])
    yield key
    shop.client.post("/feeds/remove", data={"feed": key})


def test_the_list_leads_to_the_page_of_a_feed(shop: Shop, feed: str) -> None:
    page = parsed(shop.client.get("/feeds").text)
    assert f"/feeds/{feed}" in page.xpath("//h2/a/@href")

    def told() -> str:
        return str(parsed(shop.client.get(f"/feeds/{feed}").text).text_content())

    eventually(lambda: "failure in a row" in told())
    assert "None has come yet" in told()
    assert shop.client.get("/feeds/nothing").status_code == 404


def test_a_feed_is_changed_on_its_page(shop: Shop, feed: str) -> None:
    form = {"feed": feed, "tags": "sea, land", "every": "2 h"}
    assert shop.client.post("/feeds/edit", data=form).headers["location"] == f"/feeds/{feed}"
    changed = ok(shop.client.get(f"/v1/feeds/{feed}"))
    assert (changed["tags"], changed["every"]) == (["sea", "land"], 7_200)
    page = parsed(shop.client.get(f"/feeds/{feed}").text)
    assert page.xpath("//input[@id='every']/@value") == ["2 h"]
    wrong = shop.client.post("/feeds/edit", data={**form, "every": "often"})
    assert wrong.status_code == 422
    page = parsed(wrong.text)
    assert page.xpath("//*[@id='problem']")
    assert page.xpath("//input[@id='every']/@value") == ["often"]


def test_a_feed_is_refreshed_now(shop: Shop, feed: str) -> None:
    before = ok(shop.client.get(f"/v1/feeds/{feed}"))["failures"]
    asked = shop.client.post("/feeds/poll", data={"feed": feed})
    page = parsed(shop.client.get(asked.headers["location"]).text)
    assert "polled as soon as" in page.xpath("string(//p[@role='status'])")
    eventually(lambda: ok(shop.client.get(f"/v1/feeds/{feed}"))["failures"] > before)


def test_the_page_of_a_feed_draws_its_last_polls_and_lists_errors(shop: Shop, feed: str) -> None:
    eventually(lambda: ok(shop.client.get(f"/v1/feeds/{feed}/polls")))
    newest = ok(shop.client.get(f"/v1/feeds/{feed}/polls"))[0]
    assert newest["failed"]
    page = parsed(shop.client.get(f"/feeds/{feed}").text)
    section = page.xpath("//section[@aria-labelledby='polls-title']")[0]
    assert newest["note"] in section.text_content()
    assert section.xpath("count(.//*[local-name()='rect'][@class='d-bad'])") >= 1
