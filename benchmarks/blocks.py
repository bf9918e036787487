"""Distinct blocks on feed items and on auctions, for stage 1 and as XPath.

A block selects nodes below a node that passes some tests.  Each mix has a *pool*, of which at least
ten blocks match each feed item, and an endless supply of *idle* blocks.  No document matches an
idle block: it tests names and values that do not occur, and is otherwise like the others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain, count, islice, product
from string import ascii_lowercase, ascii_uppercase
from types import MappingProxyType
from typing import Literal, TypeAlias

from benchmarks.auctions import CATEGORIES, PAYMENTS, PERSONS
from benchmarks.feed_items import (
    CHANNEL_ODDS,
    CHANNELS,
    LEAVES,
    WORD_ODDS,
    WORDS,
    Item,
    channel_url,
)
from feeds.documents import Document
from xscl.language.parser import parse_block
from xscl.language.syntax import Block, Condition, Exists, NameTest, Path, Step, ValueTest

PREFIXES = MappingProxyType(
    {"dc": "http://purl.org/dc/elements/1.1/", "atom": "http://www.w3.org/2005/Atom"}
)
EXSLT = MappingProxyType({"re": "http://exslt.org/regular-expressions"})
"""The prefix of lxml's own regular expressions."""
SEED = 2003
LANGUAGES = ("de", "en", "es", "fr", "it")
AUTHORS = WORDS[:200]


# -- Blocks --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Test:
    """A test of a node: its path exists, or compares with a constant."""

    __test__ = False  # it is none of pytest's

    path: str
    operator: Literal[
        "", "=", "<", "<=", ">", ">=", "contains", "starts-with", "contains folded", "matches"
    ] = ""
    constant: str | float = ""

    def text(self) -> str:
        """Return the test in XSCL."""
        constant = f'"{self.constant}"' if isinstance(self.constant, str) else self.constant
        match self.operator:
            case "":
                return f"./{self.path}"
            case "contains" | "starts-with":
                return f"{self.operator}(./{self.path}, {constant})"
            case "contains folded":
                return f"contains(lower-case(./{self.path}), {constant})"
            case "matches":
                return f'matches(./{self.path}, {constant}, "i")'
            case _:
                return f"./{self.path} {self.operator} {constant}"

    def xpath(self) -> str:
        """Return the test in XPath 1.0 with the regular expressions of EXSLT."""
        match self.operator:
            case "contains folded":
                folded = f"translate(./{self.path}, '{ascii_uppercase}', '{ascii_lowercase}')"
                return f'contains({folded}, "{self.constant}")'
            case "matches":
                return f"re:test(./{self.path}, '{self.constant}', 'i')"
            case _:
                return self.text()

    def condition(self) -> Condition:
        """Return the test as a condition."""
        path = Path(_steps(f"/{self.path}"))
        match self.operator:
            case "":
                return Exists(path)
            case "contains folded" | "matches":
                (condition,) = parse_block(f"S/item[{self.text()}]").steps[0].conditions
                return condition
            case _:
                return ValueTest(path, self.operator, self.constant)


@dataclass(frozen=True, slots=True)
class Asked:
    """A block `upper[tests]lower`, whose variables are bound where the two paths end."""

    upper: str
    tests: tuple[Test, ...]
    lower: str

    def text(self) -> str:
        """Return the block in XSCL."""
        return f"{self.upper}{''.join(f'[{test.text()}]' for test in self.tests)}{self.lower}"

    def xpath(self) -> str:
        """Return the block in XPath 1.0 with the regular expressions of EXSLT."""
        return f"{self.upper}{''.join(f'[{test.xpath()}]' for test in self.tests)}{self.lower}"

    def pair(self, stream: str) -> tuple[Block, Block]:
        """Return the definitions of the two variables."""
        *above, last = _steps(self.upper)
        conditions = tuple(test.condition() for test in self.tests)
        upper = (*above, Step(last.test, last.descendant, last.attribute, conditions))
        return Block(stream, upper), Block(stream, (*upper, *_steps(self.lower)))


def _steps(path: str) -> tuple[Step, ...]:
    """Return the steps of a path such as `//a/dc:b/@c`."""
    steps: list[Step] = []
    descendant = False
    for part in path.split("/")[1:]:
        if part:
            prefix, _, local = part.removeprefix("@").rpartition(":")
            uri = PREFIXES.get(prefix, "")
            test = NameTest(None, None) if local == "*" else NameTest(local, uri)
            steps.append(Step(test, descendant, part.startswith("@")))
        descendant = not part
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class Mix:
    """Blocks of one kind: those of the pool, and an endless supply of idle ones."""

    pool: Callable[[], Iterable[Asked]]
    idle: Callable[[], Iterator[Asked]]

    def blocks(self, number: int, idle: bool = False) -> list[Asked]:
        """Return distinct blocks: at most half of them, or none, from the pool."""
        half = () if idle else shuffled(self)[: max(1, number // 2)]
        return list(islice(dict.fromkeys(chain(half, islice(self.idle(), number))), number))


@cache
def shuffled(mix: Mix) -> tuple[Asked, ...]:
    """Return the pool of a mix, each block once, in no particular order."""
    pool = list(dict.fromkeys(mix.pool()))
    random.Random(SEED).shuffle(pool)
    return tuple(pool)


# -- Feed items ----------------------------------------------------------------------------


def plain(item: Item) -> Document:
    """Return an item as it is."""
    return item.document()


def rich(item: Item) -> Document:
    """Return an item with a price, attributes and names in namespaces beside its leaves."""
    source = random.Random(item.number)
    author = source.choice(AUTHORS)
    declared = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in PREFIXES.items())
    opening = f'<item {declared} id="i{item.number}" lang="{source.choice(LANGUAGES)}">'
    more = (
        f'<price currency="EUR">{source.uniform(0, 1_000):.2f}</price>'
        f"<dc:creator>{author}</dc:creator>"
        f'<atom:link rel="alternate" href="{item.values[0]}"/>'
    )
    document = item.document()
    inside = document.xml.decode().removeprefix("<item>").removesuffix("</item>")
    xml = f"{opening}{inside}{more}</item>".encode()
    return Document(document.stream, document.id, document.timestamp, xml)


def _item(*tests: Test, lower: str) -> Asked:
    return Asked("//item", tests, lower)


LOWER = tuple(f"{axis}{leaf}" for axis in ("/", "//") for leaf in LEAVES)


def _structure() -> Iterator[Asked]:
    for one, lower in product(LEAVES[:2], LOWER):
        yield _item(Test(one), Test("title"), lower=lower)


def _no_structure() -> Iterator[Asked]:
    for number in count():
        names = Test(f"n{number % 1_000}"), Test(f"m{number // 1_000}")
        yield _item(Test(LEAVES[number % 5]), *names, lower=LOWER[number % 10])


def _equality() -> Iterator[Asked]:
    for number, lower in product(range(CHANNELS), LOWER):
        yield _item(Test("channel_url", "=", channel_url(number)), lower=lower)
        if lower == "/title":
            home = Test("channel_url", "=", channel_url(number))
            yield _item(home, Test("description"), lower=lower)


def _no_equality() -> Iterator[Asked]:
    for number in count():
        path = "title" if number % 2 else "item_url"
        yield _item(Test(path, "=", f"none {number}"), lower=LOWER[number % 5])


def _words() -> Iterator[Asked]:
    for word, (leaf, lower) in product(WORDS, (("description", "/title"), ("title", "/item_url"))):
        yield _item(Test(leaf, "contains", word), lower=lower)
    for number in range(CHANNELS):
        yield _item(Test("item_url", "starts-with", channel_url(number)), lower="/title")


def _no_words() -> Iterator[Asked]:
    for number in count():
        operator: Literal["contains", "starts-with"] = "contains" if number % 2 else "starts-with"
        leaf = "description" if number % 3 else "title"
        yield _item(Test(leaf, operator, f"none{number}"), lower="/title")


def _folded() -> Iterator[Asked]:
    for word, leaf in product(WORDS, ("description", "title")):
        yield _item(Test(leaf, "contains folded", word), lower="/item_url")


def _no_folded() -> Iterator[Asked]:
    for number in count():
        leaf = "description" if number % 2 else "title"
        yield _item(Test(leaf, "contains folded", f"none{number}"), lower="/item_url")


def _patterns() -> Iterator[Asked]:
    for word, leaf in product(WORDS, ("description", "title")):
        yield _item(Test(leaf, "matches", f"{word} [a-z]+"), lower="/item_url")


def _no_patterns() -> Iterator[Asked]:
    for number in count():
        leaf = "description" if number % 2 else "title"
        yield _item(Test(leaf, "matches", f"none{number} [0-9]+"), lower="/item_url")


def _ranges() -> Iterator[Asked]:
    for start in range(-20, 1_000, 2):
        bounds = Test("price", ">=", float(start)), Test("price", "<", start + 26.5)
        yield _item(*bounds, lower="/title")


def _no_ranges() -> Iterator[Asked]:
    for number in count(1):
        far = 1_000 + number / 8
        match number % 3:
            case 0:
                yield _item(Test("price", ">", far), lower="/title")
            case 1:
                yield _item(Test("price", "<", -far), lower="/title")
            case _:
                bounds = Test("price", ">=", far), Test("price", "<=", far + number % 50)
                yield _item(*bounds, lower="/title")


def _pairs() -> Iterator[Asked]:
    source = random.Random(SEED)
    channels = source.choices(range(CHANNELS), cum_weights=CHANNEL_ODDS, k=20_000)
    words = source.choices(WORDS, cum_weights=WORD_ODDS, k=20_000)
    for channel, word in zip(channels, words, strict=True):
        home = Test("channel_url", "=", channel_url(channel))
        lower = source.choice(LOWER)
        yield _item(home, Test("description", "contains", word), lower=lower)


def _no_pairs() -> Iterator[Asked]:
    for number in count():
        home = Test("channel_url", "=", channel_url(number % CHANNELS))
        word = Test("description", "contains", f"none{number // CHANNELS}")
        yield _item(home, word, lower="/title")


def _names() -> Iterator[Asked]:
    for author, lower in product(AUTHORS, (*LOWER, "/dc:creator", "/atom:link/@href")):
        yield _item(Test("dc:creator", "=", author), lower=lower)
    for language in LANGUAGES:
        alternate = Test("atom:link/@rel", "=", "alternate")
        yield _item(Test("@lang", "=", language), alternate, lower="/@id")


def _no_names() -> Iterator[Asked]:
    for number in count():
        path = ("@id", "dc:creator", "atom:link/@href", "atom:author")[number % 4]
        yield _item(Test(path, "=", f"none {number}"), lower="/atom:link/@href")


def _all_pools() -> Iterator[Asked]:
    for mix in (STRUCTURE, EQUALITY, WORDS_WITHIN, RANGES, PAIRS, NAMES):
        pool = shuffled(mix)
        yield from pool[: max(8, len(pool) // 4)]


def _all_idle() -> Iterator[Asked]:
    mixes = (STRUCTURE, EQUALITY, WORDS_WITHIN, RANGES, PAIRS, NAMES)
    return chain.from_iterable(zip(*(mix.idle() for mix in mixes), strict=False))


STRUCTURE = Mix(_structure, _no_structure)
EQUALITY = Mix(_equality, _no_equality)
WORDS_WITHIN = Mix(_words, _no_words)
FOLDED = Mix(_folded, _no_folded)
PATTERNS = Mix(_patterns, _no_patterns)
RANGES = Mix(_ranges, _no_ranges)
PAIRS = Mix(_pairs, _no_pairs)
NAMES = Mix(_names, _no_names)

Writer: TypeAlias = Callable[[Item], Document]
ITEMS: Mapping[str, tuple[Mix, Writer]] = MappingProxyType(
    {
        "structure": (STRUCTURE, plain),
        "equality": (EQUALITY, plain),
        "words": (WORDS_WITHIN, plain),
        "folded words": (FOLDED, plain),
        "patterns": (PATTERNS, plain),
        "channel and word": (PAIRS, plain),
        "ranges": (RANGES, rich),
        "names": (NAMES, rich),
        "mixed": (Mix(_all_pools, _all_idle), rich),
    }
)
"""The mixes on feed items, each with how items are written."""


# -- Auctions ------------------------------------------------------------------------------


def _paths() -> Iterator[Asked]:
    uppers = (
        *("//item", "/site/regions/*/item", "//regions//item", "//description//listitem"),
        *("//parlist/listitem", "//open_auction", "//person", "/site//closed_auction"),
    )
    lowers = ("//text", "//keyword", "/*", "//*/text", "//@*", "/name", "//parlist//text/bold")
    tests = ((), (Test("description"),), (Test("*//keyword"),), (Test("@id"),), (Test("bidder"),))
    for upper, some, lower in product(uppers, tests, lowers):
        yield Asked(upper, some, lower)


def _no_paths() -> Iterator[Asked]:
    uppers = ("//item", "/site/regions/*/item", "//listitem", "//person", "//open_auction", "//*")
    for number in count():
        test = (Test(f"n{number // 18}"), Test(f"*//n{number // 18}"), Test("name"))[number % 3]
        lower = f"//n{number // 18}" if test.path == "name" else "//text"
        yield Asked(uppers[number // 3 % 6], (test,), lower)


def _values() -> Iterator[Asked]:
    for number in range(PERSONS):
        person = Test("bidder/personref/@person", "=", f"person{number}")
        yield Asked("//open_auction", (person,), "/current")
        yield Asked("//person", (Test("@id", "=", f"person{number}"),), "/name")
    for number, payment in product(range(CATEGORIES), PAYMENTS):
        category = Test("incategory/@category", "=", f"category{number}")
        yield Asked("//item", (category, Test("payment", "=", payment)), "/name")
    for word in WORDS:
        yield Asked("//item", (Test("description", "contains", word),), "/name")
    for start in range(0, 900, 10):
        bounds = Test("current", ">", float(start)), Test("current", "<=", start + 50.0)
        yield Asked("//open_auction", bounds, "/itemref/@item")


def _no_values() -> Iterator[Asked]:
    for number in count():
        match number % 5:
            case 0:
                person = Test("bidder/personref/@person", "=", f"nobody{number}")
                yield Asked("//open_auction", (person,), "/current")
            case 1:
                yield Asked("//listitem", (Test("text/keyword", "=", f"none{number}"),), "/text")
            case 2:
                none = Test("description", "contains", f"none{number}")
                yield Asked("//item", (none,), "/name")
            case 3:
                income = Test("profile/@income", ">", 100_000.0 + number)
                yield Asked("//person", (income,), "/name")
            case _:
                none = Test("incategory/@category", "=", f"none{number}")
                yield Asked("//item", (none, Test("@featured", "=", "yes")), "/name")


AUCTIONS: Mapping[str, Mix] = MappingProxyType(
    {"auction paths": Mix(_paths, _no_paths), "auction values": Mix(_values, _no_values)}
)
"""The mixes on auctions."""
