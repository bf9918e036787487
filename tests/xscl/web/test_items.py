"""Items: what has come in, queries by example, and why not for two of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.waiting import eventually
from tests.xscl.service.conftest import ok, serving
from tests.xscl.web.browser import PHONE, WIDE, Browser
from tests.xscl.web.shown import Shop, parsed
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings
from xscl.web.views.items import NODES


def keys(shop: Shop, **asked: str) -> list[str]:
    """Return the ids of the listed documents."""
    return list(shop.page("/items", **asked).xpath("//li[@data-key]/@data-key"))


@pytest.fixture(scope="module")
def pair(shop: Shop) -> tuple[str, str]:
    """Two sample items with the same headline in other capitals, the later one first."""
    found = [key for key in keys(shop, q="night ferry") if "same-story" in key]
    later, earlier = (key for key in found if key.startswith(found[0].rpartition(":")[0]))
    return later, earlier


def test_items_are_found_by_text_and_stream(shop: Shop, pair: tuple[str, str]) -> None:
    assert len(pair) == 2
    assert len(keys(shop)) == 50
    streams = keys(shop, stream="advisories")
    assert streams
    assert all("advisory-then-release" in key for key in streams)
    assert keys(shop, q="&lt;no such thing") == []
    assert shop.client.get("/items", params={"stream": "nowhere"}).status_code == 404


def test_what_has_no_title_is_called_by_a_value_with_its_name(shop: Shop) -> None:
    (row,) = shop.page("/items", q="504", stream="invoices").xpath("(//h2/a)[1]")
    assert row.text_content() == "id 504"
    assert shop.page(row.get("href")).xpath("string(//h1)") == "id 504"


def test_a_page_shows_the_first_elements_of_a_large_document(shop: Shop) -> None:
    text = f"<r>{'<a>v</a>' * (NODES + 9)}</r>"
    ok(shop.client.post("/v1/documents/large", params={"id": "large"}, content=text))
    eventually(lambda: shop.client.get("/document?id=large").status_code == 200)
    page = shop.page("/document", id="large")
    assert len(page.xpath("//ol[@class='tree']/li")) == NODES
    assert "the first 1,000 of 1,010 nodes" in page.text_content()


def test_a_match_is_excluded_by_a_condition_that_is_proposed_in_the_editor(shop: Shop) -> None:
    card = shop.page("/?subscription=same-story").xpath("//article")[0]
    (link,) = [one for one in card.xpath(".//a/@href") if one.startswith("/not-again?")]
    page = shop.page(link)
    sections = page.xpath("//section[@class='panel']")
    assert [bool(one.xpath(".//li")) for one in sections] == [True, True]
    for item, section in enumerate(sections, 1):
        assert f"Item {item}" in section.xpath("string(.//h2)")
        told = section.xpath(".//li//span[@class='hidden']/text()")
        assert len(told) > 1
        assert all(one.endswith(f" of item {item}") for one in told)
    first = sections[0].xpath(".//li")[0]
    assert first.xpath("string(.//code)").startswith("[not(./title = ")
    editor = shop.page(first.xpath(".//a/@href")[0])
    assert "nothing changes until you save it" in editor.xpath("string(//div[@role='status'])")
    assert editor.xpath("//input[@name='edit']/@value") == ["same-story"]
    proposed = editor.xpath("string(//textarea[@name='query'])")
    assert first.xpath("string(.//code)") in proposed
    stored = ok(shop.client.get("/v1/subscriptions/same-story"))
    assert (stored["version"], stored["query"] in editor.text_content()) == (1, True)
    unknown = shop.client.get("/not-again", params={"subscription": "nobody", "doc": "x"})
    assert unknown.status_code == 404


def test_a_query_is_written_from_two_items(shop: Shop, pair: tuple[str, str]) -> None:
    page = shop.page("/compare", doc=pair)
    assert page.xpath("//input[@name='pair' and @checked]/@value") == ["item/title = item/title"]
    (form,) = page.xpath("//form[@action='/compare/query']")
    asked = [(one.get("name"), one.get("value")) for one in form.xpath(".//input[@type='hidden']")]
    asked += [("pair", "item/title = item/title"), ("differs", "item/channel_url")]
    answer = shop.client.get("/compare/query", params=[*asked, ("window", "1 d")])
    editor = parsed(shop.client.get(answer.headers["location"]).text)
    query = editor.xpath("string(//textarea)").strip()
    tried = ok(shop.client.post("/v1/try", json={"query": query}))
    found = [[one["document"] for one in match["sources"]] for match in tried["matches"]]
    assert [*reversed(pair)] in found
    assert shop.client.get("/compare/query", params=asked[:2]).status_code == 422


def test_why_not_shows_each_condition(shop: Shop, pair: tuple[str, str]) -> None:
    def states(subscription: str, *documents: str) -> list[str]:
        page = shop.page("/why", subscription=subscription, doc=documents)
        assert not any(one in page.text_content() for one in documents)
        return [each.text_content() for each in page.xpath("//li//span[contains(@class, 'state')]")]

    later, earlier = pair
    for both in ((earlier, later), (later, earlier)):
        assert set(states("same-story", *both)) == {"holds"}, "a symmetric join"
    assert "FAILS" in states("correction", earlier, later)
    wrong = shop.client.get("/why", params={"subscription": "same-story", "doc": [later]})
    assert wrong.status_code == 422
    assert "block" in wrong.text


def test_an_element_of_an_item_opens_its_query(shop: Shop, pair: tuple[str, str]) -> None:
    page = shop.page("/document", id=pair[0])
    (path,) = page.xpath("//a[@class='tree-name' and text()='title']/@href")
    query = shop.page(path).xpath("string(//textarea)").strip()
    assert query == 'feeds//item->item1[./title = "Night Ferry Returns in June"]'
    assert page.xpath("//li[@title='feeds/item/title']")


# -- In a browser ----------------------------------------------------------------------------


@pytest.fixture
def items(browser: Browser, shop: Shop, calm: None) -> Browser:
    """The list in a browser that has read nothing."""
    read = [one["item"] for one in ok(shop.client.get("/v1/reading/marks"))["items"]]
    shop.client.post("/v1/reading/marks", json={"items": read, "read": False})
    browser.open(f"{shop.address}/items")
    return browser


@pytest.mark.slow
def test_items_are_read_by_keyboard(items: Browser) -> None:
    items.until(lambda: "50 unread" in items.text("#reading-words"))
    items.press("j")
    items.press("j")
    second = items.run("return document.activeElement.dataset.key")
    items.press("k")
    first = items.run("return document.activeElement.dataset.key")
    assert first != second
    items.press("m")
    items.until(lambda: "49 unread" in items.text("#reading-words"))
    items.press("?")
    assert items.one("dialog").is_displayed()
    assert items.violations() == []
    items.press(Keys.ESCAPE)
    items.press("j")
    items.press("o")
    items.until(lambda: items.all(".tree"))
    items.chrome.back()
    items.until(lambda: "48 unread" in items.text("#reading-words"))
    items.one("#hide-read").click()
    items.until(lambda: len(items.all("li[data-key]:not([hidden])")) == 48)
    items.press("/")
    items.press("night ferry")
    items.press(Keys.ENTER)
    items.until(lambda: "q=night" in items.chrome.current_url)


@pytest.mark.slow
def test_two_items_become_a_subscription_by_keyboard_and_links(
    items: Browser, shop: Shop, pair: tuple[str, str]
) -> None:
    items.open(f"{shop.address}/items?q=night+ferry")
    items.one(f"li[data-key='{pair[0]}'] a[href*='with=']").click()
    items.one(f"li[data-key='{pair[1]}'] a[href*='/compare']").click()
    for scheme, size in (("light", WIDE), ("dark", PHONE)):
        items.look(scheme, size)
        assert items.violations() == []
        assert items.run("return document.documentElement.scrollWidth") <= size[0]
    items.one("form[action='/compare/query'] button").click()
    items.until(lambda: "the same lower-case(title)" in items.text(".sentence"))
    items.one("button[value='try']").click()
    assert "match" in items.text("#tried-title")


def test_items_and_matches_are_listed_by_the_time_of_arrival_that_they_show(shop: Shop) -> None:
    listed = ok(shop.client.get("/v1/documents", params={"limit": 50}))["items"]
    arrived = [one["arrived"] for one in listed]
    assert arrived == sorted(arrived, reverse=True)
    shop.send("/items/order", order="arrival")
    sides = shop.page("/items").xpath("//*[@class='list-side']")
    shown = [one.xpath(".//time/@datetime") for one in sides]
    dated = [one["timestamp"][:16] for one in listed]
    assert [[time[:16] for time in times] for times in shown] == [
        [came[:16], own] if came[:16] != own else [own]
        for came, own in zip(arrived, dated, strict=True)
    ]
    assert any(len(times) == 2 for times in shown)
    shop.send("/items/order", order="date")
    (head, *_) = shop.page("/").xpath("//header[@class='match-head']")
    assert "arrived" in head.text_content()


def test_why_shows_the_names_of_documents_and_counts_what_fails(tmp_path: Path, deaf: str) -> None:
    query = "orders//o->x[./n->n] FOLLOWED BY{n = m, 1 h} invoices//i->y[./n->m]"
    with (
        serving(DataDirectory(tmp_path), fetching=PollSettings((deaf,))) as running,
        running.client() as client,
    ):
        made = Shop(running.address, client)
        for stream, root, id, time in (
            ("orders", "o", "17", "2025-03-01T00:00:00"),
            ("invoices", "i", "17", "2025-03-01T00:10:00"),
            ("orders", "o", "18", "2025-03-03T00:00:00"),
            ("invoices", "i", "18", "2025-03-04T00:00:00"),
        ):
            content = f"<{root}><n>{id}</n></{root}>".encode()
            sent = {"id": id, "time": time}
            ok(client.post(f"/v1/documents/{stream}", params=sent, content=content))
        eventually(lambda: ok(client.get("/v1/status"))["service"]["documents"] == 4)
        made.subscribe("paid", query)

        def page(*documents: str) -> str:
            shown = made.page("/why", subscription="paid", doc=documents)
            return " ".join(shown.xpath("string(//main)").split())

        assert "Why it matches" in page()
        assert "A match Every condition holds." in page()
        late = page("orders/18", "invoices/18")
        assert "Item 1 · orders/18 · o · " in late
        assert "Item 2 · invoices/18 · i · " in late
        assert "They do not match: 1 of 6 conditions fails" in late
