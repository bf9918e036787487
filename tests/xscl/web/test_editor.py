"""The query editor in a real browser: completion, marks of errors, keys, without script."""

from __future__ import annotations

import re
import time

import pytest
from selenium.webdriver.common.keys import Keys

from tests.xscl.web.browser import Browser
from tests.xscl.web.shown import Shop

_OFFERED = """
const root = document.getElementById("query-editor").shadowRoot;
return [...root.querySelectorAll(".cm-tooltip-autocomplete li")].map((each) => each.textContent);
"""
_SAMPLES = """
const root = document.getElementById("query-editor").shadowRoot;
const samples = root.querySelector(".cm-completionInfo");
return samples?.getBoundingClientRect().width ? samples.textContent : "";
"""
_COMPLETE = """
const text = arguments[0];
const done = arguments[arguments.length - 1];
import("/static/query_completion.js").then(async ({completions}) => {
  const doc = {toString: () => text};
  const state = {doc, sliceDoc: (from, to) => text.slice(from, to)};
  const found = await completions({state, pos: text.length, explicit: !text.endsWith(" ")});
  done((found?.options ?? []).map((each) => each.label));
});
"""
_MARKED = """
const root = document.getElementById("query-editor").shadowRoot;
return [...root.querySelectorAll(".cm-lintRange-error")].map((each) => each.textContent).join("");
"""


pytestmark = pytest.mark.usefixtures("calm")


def _offers(browser: Browser, text: str) -> None:
    """Wait until a completion is offered."""
    browser.until(lambda: any(each.startswith(text) for each in browser.run(_OFFERED)))


def test_a_query_is_completed_from_what_is_there(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/subscribe")
    browser.write("fe")
    _offers(browser, "feeds")
    browser.write("eds//")
    _offers(browser, "item")
    browser.write("item->a[./tit")
    _offers(browser, "title")
    browser.until(lambda: "night ferry" in browser.run(_SAMPLES).lower())
    time.sleep(0.2)  # the editor ignores a key that comes right after the list has opened
    browser.press(Keys.ENTER)
    browser.write(" = '")
    _offers(browser, "Night Ferry Returns in June")
    browser.write("Night Ferry Returns in June']")
    browser.until(lambda: "Tell me about each item of feeds" in browser.text(".sentence"))
    written = browser.run("return document.getElementById('query').value")
    assert written == "feeds//item->a[./title = 'Night Ferry Returns in June']"


OFFERED: dict[str, tuple[set[str], set[str]]] = {
    "": ({"feeds", "orders", "SELECT * FROM"}, {"title"}),
    "orders//": ({"order", "number", "total"}, {"title"}),
    "orders/": ({"order"}, {"number"}),
    "orders//order[./": ({"number", "total"}, {"order"}),
    "orders//order[./number->n][./t": ({"total"}, set()),
    "tricks//item/enclosure/@": ({"@url"}, {"title"}),
    "tricks//item[./enclosure/": ({"@url"}, {"title"}),
    "feeds//item[contains(./title, 'Night": ({"Night Ferry Returns in June"}, set()),
    "orders//order[./number = '": ({"71"}, set()),
    "orders//order->o ": (set(), {"order"}),
    "orders//order->o[./number->n] FOLLOWED BY{": ({"n", "o", "lower-case"}, {"orders"}),
    "orders//order->o[./number->n] FOLLOWED BY{n = m, 1 d} in": ({"invoices"}, {"n"}),
    "orders//order FOLLOWED BY invoices//invoice[./": ({"order", "total"}, {"number"}),
    "AT '0 9 * * MON'->t FOLLOWED BY{1 d} o": ({"AT", "orders"}, {"title"}),
    "AT '0 9 * * MON'->t FOLLOWED BY{1 d} orders//order[./": ({"number", "total"}, {"order"}),
    "orders//order FOLLOWED BY{1 d} AT '0 9": (set(), {"number"}),
}
"""Names that are offered behind a text, and names that are not."""


@pytest.mark.slow
@pytest.mark.parametrize("text", OFFERED)
def test_what_is_offered_fits_its_place(browser: Browser, shop: Shop, text: str) -> None:
    browser.open(f"{shop.address}/subscribe")
    labels = set(browser.run_async(_COMPLETE, text))
    offered, missing = OFFERED[text]
    assert offered <= labels
    assert labels.isdisjoint(missing)


_COUNTED = "return document.getElementById('counted').textContent"


def test_the_matches_of_a_query_are_counted_as_it_is_written(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/subscribe")
    browser.write("tricks//item->a")
    found = browser.until(lambda: re.findall(r"(\d+) matches in the last", browser.run(_COUNTED)))
    assert int(found[0]) == shop.documents("tricks")
    browser.write("[./title = 'none']")
    browser.until(lambda: "No match in the last 30 days" in browser.run(_COUNTED))
    browser.press(Keys.BACKSPACE)
    assert "match" not in browser.run(_COUNTED)  # of another query than is there
    browser.until(lambda: browser.all("#checked #problem"))
    browser.until(lambda: browser.run(_COUNTED).strip() == "")


@pytest.mark.slow
def test_control_and_enter_try_the_query(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/subscribe?example=same-story")
    browser.write("")
    browser.press(Keys.CONTROL + Keys.ENTER)
    assert "in the last 30 days" in browser.text("#tried-title")


@pytest.mark.slow
def test_an_error_is_marked_where_it_is(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/subscribe")
    browser.write("news//item->a[./title->t]\n  FOLLOWED BY{t = wrong, 1 d} news//item->b")
    browser.until(lambda: browser.run(_MARKED) == "wrong")
    assert browser.violations() == []
    for _ in range(len(", 1 d} news//item->b")):
        browser.press(Keys.ARROW_LEFT)
    browser.press(*[Keys.BACKSPACE] * len("wrong"), "t")
    browser.until(lambda: browser.run(_MARKED) == "")
