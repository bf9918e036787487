"""Documents for the tests of the page: the gallery's items, and all faults of a bad feed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

import httpx
from lxml import html

from tests.xscl.service.conftest import eventually, ok
from xscl.web.gallery import cases

TRICKS = (
    "<script>document.title='caught'</script>",
    "<img src=x onerror=\"document.title='caught'\">",
    "<svg onload=\"document.title='caught'\"><a xlink:href='javascript:1'>x</a></svg>",
    "</title><h1>caught</h1>",
    "</textarea><button>caught</button>",
    "{{ 7 * 7 }} {% raw %} ${7*7} #{7*7}",
    "\" autofocus onfocus=\"document.title='caught'",
    "' onmouseover='x",
    "<!-- <![CDATA[ ]]&gt; &amp;lt;",
)
"""Texts that would be markup, script or template if anything took them for more than text."""

TRICKY = "tricks//item->a[./title->t] FOLLOWED BY{t = u, 7 d} tricks//item->b[./title->u]"


def tricky_item(trick: str, number: int) -> bytes:
    """Return an item with a trick in each of its leaves, and addresses that are no links."""
    text = escape(trick)
    leaves = "".join(
        f"<{name}>{text} {name}</{name}>" for name in ("description", "author", "category")
    )
    return (
        f"<item><id>{number}</id><item_url>javascript:alert({number})</item_url>"
        f"<channel_url>data:text/html,{text}</channel_url><title>{text}</title>{leaves}"
        f"<enclosure url={quoted(trick)}/></item>"
    ).encode()


def parsed(text: str) -> Any:
    """Return the elements of a page."""
    return html.fromstring(text)


def quoted(text: str) -> str:
    return '"' + escape(text, {'"': "&quot;"}) + '"'


@dataclass(frozen=True)
class Shop:
    """A service with the gallery's queries and items, and what a bad feed would bring."""

    address: str
    client: httpx.Client

    def fill(self) -> None:
        """Bring everything in, and wait for what it matches."""
        for case in cases():
            self.subscribe(case.slug, case.query)
        self.subscribe("tricky", TRICKY)
        self.samples()
        self.samples()
        self.tricks()
        eventually(lambda: self.count() >= 2 * len(cases()) + len(TRICKS))

    def page(self, path: str, **asked: Any) -> Any:
        """Return the elements of a page."""
        return parsed(self.client.get(path, params=asked or None).text)

    def send(self, path: str, **form: Any) -> httpx.Response:
        """Send a form of a page."""
        return self.client.post(path, data=form)

    def subscribe(self, name: str, query: str) -> None:
        ok(self.client.put(f"/v1/subscriptions/{quote(name)}", json={"query": query}))

    def remove(self, name: str) -> None:
        """Remove a subscription with all that it has found."""
        self.client.delete(f"/v1/subscriptions/{quote(name)}", params={"purge": True})

    def samples(self) -> None:
        """Bring the gallery's items in, as the page does."""
        assert self.client.post("/gallery/load").status_code == 303

    def tricks(self) -> None:
        """Bring each trick in twice, so that two items match."""
        now = int(time.time() * 1e6) - 2_700_000_000  # of an hour, "59 min ago" becomes "1 h ago"
        for number, trick in enumerate(TRICKS):
            for side in (0, 1):
                moment = now + (2 * number + side) * 1_000_000
                self.push("tricks", tricky_item(trick, number), f"t{number}{side}", moment)

    def push(self, stream: str, xml: bytes, name: str, moment: int) -> None:
        params = {"id": name, "time": str(moment)}
        ok(self.client.post(f"/v1/documents/{stream}", params=params, content=xml))

    def documents(self, stream: str) -> int:
        """Return the number of documents of a stream: other tests may have brought more in."""
        streams = self.client.get("/v1/streams").json()["items"]
        return next(int(one["documents"]) for one in streams if one["name"] == stream)

    def count(self) -> int:
        """Return the largest number of matches on the newest page."""
        news = self.client.get("/matches/news", params={"after": "0.0"})
        found = news.text.count("<article")
        while news.headers["X-More"] == "yes":
            news = self.client.get("/matches/news", params={"after": news.headers["X-After"]})
            found += news.text.count("<article")
        return found
