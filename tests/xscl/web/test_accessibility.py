"""Every page in light and dark, wide and small: axe, the policy, the width, what moves."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.xscl.service.conftest import ok, serving
from tests.xscl.web.browser import PHONE, WIDE, Browser
from tests.xscl.web.shown import Shop
from tests.xscl.web.test_pages import PAGES
from tests.xscl.web.test_stories_in_browser import COUNTED, not_again
from xscl.ingestion.data_directory import DataDirectory

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("calm")]

LOOKS = tuple(itertools.product(("light", "dark"), (WIDE, PHONE)))
MORE = (
    "/docs",
    "/no/such/page",
    "/subscriptions/nobody",
    "/items?q=nothing-like-this",
    "/?day=2001-01-01",
    COUNTED,
)


def expect_accessible(browser: Browser, address: str) -> None:
    """Open a page in each look, with nothing that axe finds, nothing too wide, nothing moving."""
    for scheme, size in LOOKS:
        browser.look(scheme, size)
        browser.open(address)
        assert browser.violations() == [], (address, scheme, size)
        assert browser.run("return document.documentElement.scrollWidth") <= size[0], address
        assert browser.shifted() < 0.01, address


@pytest.mark.parametrize("path", [*PAGES, *MORE])
def test_every_page_is_accessible_in_every_look(browser: Browser, shop: Shop, path: str) -> None:
    expect_accessible(browser, shop.address + path)


def test_answers_of_forms_are_accessible(browser: Browser, shop: Shop) -> None:
    """Pages that only a form leads to, each in every look."""
    wrong = "feeds//item->a[./title->t] JOIN{t = w, 1 d} feeds//item->b"
    none = "feeds//item->a[./titel->t] JOIN{t = u, 1 d} feeds//item->b[./title->u]"
    for path, form in (
        ("/subscribe", {"query": wrong, "do": "try"}),
        ("/subscribe", {"query": none, "do": "try"}),
        ("/witnesses", {"sql": "SELECT nothing FROM nowhere"}),
        ("/subscriptions/address", {"name": "tricky"}),
        ("/feeds/add", {"url": "http://[", "stream": "x"}),
        ("/sign-in", {"token": "xscl_wrong"}),
    ):
        browser.open(f"{shop.address}/gallery")
        browser.run(_SUBMIT, path, json.dumps(form))
        browser.until(lambda: not browser.all("section.case"))
        for scheme, size in LOOKS:
            browser.look(scheme, size)
            assert browser.violations() == [], (path, scheme, size)
            assert browser.run("return document.documentElement.scrollWidth") <= size[0], path


_SUBMIT = """
const form = document.createElement("form");
form.method = "post";
form.action = arguments[0];
for (const [name, value] of Object.entries(JSON.parse(arguments[1]))) {
  const field = document.createElement("input");
  field.name = name;
  field.value = value;
  form.append(field);
}
document.body.append(form);
form.submit();
"""


def test_pages_of_an_empty_service_are_accessible(browser: Browser, tmp_path: Path) -> None:
    with serving(DataDirectory(tmp_path / "data")) as running:
        for path in ("/", "/items", "/subscriptions", "/feeds", "/witnesses", "/plan", "/status"):
            expect_accessible(browser, running.address + path)


def test_pages_of_a_feed_and_of_a_match_are_accessible(
    browser: Browser, shop: Shop, deaf: str
) -> None:
    feed = {"url": f"http://{deaf}/silent.xml", "stream": "accessible", "keep": True}
    key = ok(shop.client.post("/v1/feeds", json=feed))["key"]
    expect_accessible(browser, f"{shop.address}/feeds/{key}")
    shop.client.delete(f"/v1/feeds/{key}")
    path = "/v1/subscriptions/orders-and-invoices/feed.json"
    expect_accessible(browser, str(ok(shop.client.get(path))["items"][0]["url"]))
    expect_accessible(browser, not_again(shop))
