"""Documents of an auction site: nested, with attributes and recursion.

The vocabulary is that of the XMark benchmark (Schmidt et al. 2002): regions
with items, people, open and closed auctions.  A document has the
events of one hour, some hundred nodes.  Hardly any two have the same structure:
descriptions are texts, or lists of items that are texts or lists again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from benchmarks.feed_items import WORD_ODDS, WORDS

REGIONS = ("africa", "asia", "australia", "europe", "namerica", "samerica")
PAYMENTS = ("Creditcard", "Cash", "Money order", "Personal Check")
CATEGORIES = 50
PERSONS = 2_000
DEPTH = 3  # of lists within lists


def auctions(count: int, seed: int) -> Iterator[bytes]:
    """Yield documents."""
    site = _Site(random.Random(seed))
    for _ in range(count):
        yield site.document().encode()


class _Site:
    """Generates documents; numbers of items and auctions rise from one to the next."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._items = 0
        self._auctions = 0

    def document(self) -> str:
        regions = "".join(
            f"<{region}>{''.join(self._item() for _ in range(self._source.choice((1, 1, 2))))}"
            f"</{region}>"
            for region in self._source.sample(REGIONS, 2)
        )
        people = "".join(self._person() for _ in range(self._source.randrange(1, 3)))
        opened = "".join(self._open() for _ in range(self._source.randrange(1, 3)))
        return (
            f"<site><regions>{regions}</regions><people>{people}</people>"
            f"<open_auctions>{opened}</open_auctions>"
            f"<closed_auctions>{self._closed()}</closed_auctions></site>"
        )

    def _words(self, count: int) -> str:
        return " ".join(self._source.choices(WORDS, cum_weights=WORD_ODDS, k=count))

    def _some(self, chance: float, text: str) -> str:
        return text if self._source.random() < chance else ""

    def _person_number(self) -> str:
        return f"person{self._source.randrange(PERSONS)}"

    def _item(self) -> str:
        self._items += 1
        source = self._source
        categories = "".join(
            f'<incategory category="category{source.randrange(CATEGORIES)}"/>'
            for _ in range(source.randrange(1, 4))
        )
        featured = self._some(0.1, ' featured="yes"')
        return (
            f'<item id="item{self._items}"{featured}><location>{self._words(1)}</location>'
            f"<quantity>{source.randrange(1, 6)}</quantity><name>{self._words(2)}</name>"
            f"<payment>{source.choice(PAYMENTS)}</payment>"
            f"<description>{self._description(DEPTH)}</description>{categories}</item>"
        )

    def _description(self, depth: int) -> str:
        if not depth or self._source.random() < 0.6:
            return self._text()
        listed = (self._description(depth - 1) for _ in range(self._source.randrange(1, 4)))
        return f"<parlist>{''.join(f'<listitem>{one}</listitem>' for one in listed)}</parlist>"

    def _text(self) -> str:
        keyword = self._some(0.5, f"<keyword>{self._words(1)}</keyword>")
        bold = self._some(0.3, f"<bold>{self._words(1)}</bold>")
        return f"<text>{self._words(5)} {keyword} {self._words(3)} {bold}</text>"

    def _person(self) -> str:
        source = self._source
        interests = "".join(
            f'<interest category="category{source.randrange(CATEGORIES)}"/>'
            for _ in range(source.randrange(3))
        )
        income = quoteattr(f"{source.uniform(9_000, 99_000):.2f}")
        name = escape(self._words(2))
        return (
            f"<person id={quoteattr(self._person_number())}><name>{name}</name>"
            f"<emailaddress>mailto:{name.replace(' ', '.')}@example.org</emailaddress>"
            + self._some(0.5, f"<profile income={income}>{interests}</profile>")
            + "</person>"
        )

    def _open(self) -> str:
        self._auctions += 1
        source = self._source
        bidders = "".join(
            f"<bidder><date>{source.randrange(1, 29):02}/07/2002</date>"
            f'<personref person="{self._person_number()}"/>'
            f"<increase>{source.randrange(1, 20) * 1.5:.2f}</increase></bidder>"
            for _ in range(source.randrange(4))
        )
        return (
            f'<open_auction id="open_auction{self._auctions}">'
            f"<initial>{source.uniform(1, 300):.2f}</initial>"
            + self._some(0.4, f"<reserve>{source.uniform(50, 900):.2f}</reserve>")
            + f"{bidders}<current>{source.uniform(1, 900):.2f}</current>"
            f'<itemref item="item{source.randrange(1, self._items + 1)}"/>'
            f"<quantity>1</quantity><type>Regular</type></open_auction>"
        )

    def _closed(self) -> str:
        source = self._source
        return (
            f'<closed_auction><seller person="{self._person_number()}"/>'
            f'<buyer person="{self._person_number()}"/>'
            f"<price>{source.uniform(1, 900):.2f}</price>"
            f"<annotation><description>{self._description(1)}</description></annotation>"
            "</closed_auction>"
        )
