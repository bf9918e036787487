"""Random expressions over every axis, operator and function of docs/languages/xpath.md.

They are typed, so that most have a value in XPath 3.1, too: what Saxon refuses is no case.  The
differences that the page lists are not drawn: an order of two values without a type, a text beside
a number that is none, several items where one is asked for, dates of feeds.  Nor is `! ./path`,
which Saxon 13.1 evaluates as `/path`, without its repeated nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from random import Random

from lxml import etree

AXES = (
    *("child", "descendant", "descendant-or-self", "parent", "ancestor", "ancestor-or-self"),
    *("self", "attribute", "following", "following-sibling", "preceding", "preceding-sibling"),
)
SPACE = "urn:s"
_TEXTS = ("", "x", "X y", " y ", "xyz", "a-b", "é", "1x", "x x")
_NUMBERS = ("0", "1", "2", "12", "-3", "1.5", "1.0E2", " 7 ", "0.25", "1e0")
_DATES = ("2026-01-02", "2026-01-02Z", "1999-12-31-05:00", "2000-02-29+14:00", "0900-05-06")
_TIMES = (
    *("2026-01-02T03:04:05Z", "1999-12-31T21:20:00-05:00", "2026-01-01T23:30:00.5+02:00"),
    *("2025-12-31T23:00:00-05:00", "2026-01-01T02:00:00"),
)
_CLOCKS = ("03:04:05", "23:59:59.25Z", "00:00:00-05:00")
_LENGTHS = ("P1D", "PT12H", "-PT1.5S", "P2DT3H4M5S", "PT0S")
_MONTHS = ("P1Y", "P14M", "-P3M")
_NODE_TESTS = (
    *("a", "a", "b", "*", "node()", "text()", "*:a", f"Q{{{SPACE}}}a", "n", "d", f"Q{{{SPACE}}}*"),
    *("element()", "element(a)", "comment()", "processing-instruction()"),
)
_SPANS = ("P1Y2M3DT4H5M6.5S", "P1D", "-P1Y")


def document(random: Random) -> etree._Element:
    """Return a document: namespaces, mixed content, empty and repeated elements, numbers, dates."""
    root = etree.Element("r", nsmap={"s": SPACE})
    elements = [root]
    for _ in range(random.randint(2, 12)):
        above = random.choice(elements[-4:])
        name = random.choice(["a", "a", "b", "c", "n", "d", f"{{{SPACE}}}a", f"{{{SPACE}}}b"])
        element = etree.SubElement(above, name)
        kinds = {"n": _NUMBERS, "d": _DATES}
        element.text = random.choice(kinds.get(name, _TEXTS))
        if random.random() < 0.3:
            element.tail = random.choice(["t", " ", "tail 1"])
        if random.random() < 0.4:
            element.set("p", random.choice(_TEXTS))
        if random.random() < 0.3:
            element.set("q", random.choice(_NUMBERS))
        if random.random() < 0.1:
            element.set(f"{{{SPACE}}}p", "v")
        if random.random() < 0.1:
            element.set(
                "{http://www.w3.org/XML/1998/namespace}lang", random.choice(["en", "de-AT"])
            )
        if random.random() < 0.1:
            element.append(
                random.choice([etree.Comment("x"), etree.ProcessingInstruction("i", "v")])
            )
        if name != "n" and name != "d":
            elements.append(element)
    return etree.fromstring(etree.tostring(root))


class Cases:
    """Draws expressions, and counts the axes, operators and functions that are in them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.drawn: Counter[str] = Counter()
        self._variables: list[str] = []

    def _of(self, *choices: str | Callable[[], str]) -> str:
        chosen = self.random.choice(choices)
        return chosen if isinstance(chosen, str) else chosen()

    def _call(self, name: str, *arguments: str) -> str:
        self.drawn[name.removeprefix("math:")] += 1
        prefix = "fn:" if ":" not in name and self.random.random() < 0.05 else ""
        return f"{prefix}{name}({', '.join(arguments)})"

    def _sign(self, *signs: str) -> str:
        sign = self.random.choice(signs)
        self.drawn[sign] += 1
        return sign

    # -- Nodes -----------------------------------------------------------------------------

    def step(self, depth: int) -> str:
        axis = self.random.choice(("", "", "", *AXES))
        if axis:
            self.drawn[axis] += 1
        test = self.random.choice(_NODE_TESTS)
        if axis == "attribute":
            test = self.random.choice(
                ("p", "q", "*", "node()", "attribute()", f"Q{{{SPACE}}}p", "*:p")
            )
        short = self.random.random()
        if not axis and short < 0.15:
            axis, test = "", self._of("@p", "@q", "..", "@*", "attribute(p)")
        written = f"{axis}::{test}" if axis else test
        for _ in range(self.random.choice((0, 0, 1, 1, 2)) if depth else 0):
            if written != "..":
                written += f"[{self.predicate(depth - 1)}]"
        return written

    def predicate(self, depth: int) -> str:
        return self._of(
            *("1", "2", "last()", "position() = 2", "position() < last()"),
            lambda: self._placed(depth),
            *(lambda: self.truth(depth),) * 6,
        )

    def _placed(self, depth: int) -> str:
        self.drawn["position"] += 1
        self.drawn["last"] += 1
        return self._of("fn:position() = fn:last()", f"position() {self._sign('=', '<', '>=')} 2")

    def path(self, depth: int) -> str:
        start = self._of("", "", "", "./", ".//", "/", "//", "/r/", "../")
        if start in ("", "/") and self.random.random() < 0.1:
            return "."
        steps = [self.step(depth) for _ in range(self.random.choice((1, 1, 2, 3)))]
        return start + "".join(
            one if not place else self._of("/", "/", "/", "//") + one
            for place, one in enumerate(steps)
        )

    def nodes(self, depth: int) -> str:
        if depth <= 0:
            return self.path(0)
        deeper = depth - 1
        return self._of(
            *(lambda: self.path(deeper),) * 6,
            lambda: f"({self.nodes(deeper)} {self._sign('|', 'union')} {self.nodes(deeper)})",
            lambda: (
                f"({self.nodes(deeper)} {self._sign('intersect', 'except')} {self.nodes(deeper)})"
            ),
            lambda: f"({self.nodes(deeper)})[{self.predicate(deeper)}]",
            lambda: (
                f"{self.path(deeper)}/({self.path(0).lstrip('/')} | {self.path(0).lstrip('/')})"
            ),
            lambda: self._call(self._of("innermost", "outermost"), self.nodes(deeper)),
            lambda: self._call("root") + "//a",
            lambda: self._call("root", self.node(deeper)),
            lambda: f"({self.nodes(deeper)} ! {self.path(0).removeprefix('./')})",
            lambda: f"({self.nodes(deeper)} treat as node()*)",
        )

    def node(self, depth: int) -> str:
        """Return one node at most."""
        return self._of(
            "@p",
            "..",
            lambda: f"({self.nodes(depth)})[1]",
            lambda: f"({self.nodes(depth)})[last()]",
            lambda: self._call("head", self.nodes(depth)),
            lambda: self._call("zero-or-one", f"({self.nodes(depth)})[2]"),
        )

    # -- Values ----------------------------------------------------------------------------

    def text(self, depth: int) -> str:
        """Return one text."""
        literal = f"'{self.random.choice(_TEXTS)}'"
        if depth <= 0:
            return self._of(
                literal, lambda: self._call("string", "@p"), lambda: self._call("string")
            )
        deeper = depth - 1
        one, other = self.text(deeper), self.text(deeper)
        number = self.number(deeper)
        return self._of(
            literal,
            lambda: self._call("string", self.node(deeper)),
            lambda: self._call("string", number),
            lambda: self._call("string", self.truth(deeper)),
            lambda: self._call("concat", one, number, other),
            lambda: f"({one} {self._sign('||')} {other})",
            lambda: self._call("string-join", self.texts(deeper), other),
            lambda: self._call("string-join", self.nodes(deeper)),
            lambda: self._call("substring", one, number),
            lambda: self._call("substring", one, number, self.number(0)),
            lambda: self._call("normalize-space", *self._of("", one).split("\0")[: bool(depth)]),
            lambda: self._call("normalize-unicode", one, self._of("'NFC'", "'NFKD'", "''")),
            lambda: self._call(self._of("upper-case", "lower-case", "encode-for-uri"), one),
            lambda: self._call("translate", one, "'xy'", self._of("'z'", "''", "'yxq'")),
            lambda: self._call(self._of("substring-before", "substring-after"), one, other),
            lambda: self._call("replace", one, self._of("'x'", "'[xy]+'", "'(x)(y)'"), "'z$1'"),
            lambda: self._call("codepoints-to-string", self._call("string-to-codepoints", one)),
            lambda: self._call(self._of("name", "local-name", "namespace-uri"), self.node(deeper)),
            lambda: self._call("string", self._call("path", self.node(deeper))),
            lambda: f"xs:string({number})",
            lambda: f"(if ({self.truth(deeper)}) then {one} else {other})",
            lambda: self._call("exactly-one", one),
        )

    def number(self, depth: int) -> str:
        """Return one number, which may be NaN."""
        literal = self._of("0", "1", "2", "12", "1.5", "2.5", "-1", "1e2", "0.5e0")
        if depth <= 0:
            return self._of(literal, literal, lambda: self._call("count", self.path(0)))
        deeper = depth - 1
        one, other = self.number(deeper), self.number(deeper)
        return self._of(
            literal,
            lambda: self._call("count", self.sequence(deeper)),
            lambda: self._call(
                "number", self._of("@q", "n[1]", self.node(deeper), self.text(deeper))
            ),
            lambda: self._call("number"),
            lambda: f"({one} {self._sign('+', '-', '*')} {other})",
            lambda: f"({one} {self._sign('div', 'mod')} {self._of('2', '4', '2.5', '1e0', '-3')})",
            lambda: (
                f"({self._call('count', self.nodes(0))} {self._sign('idiv')} {self._of('2', '-3')})"
            ),
            lambda: f"(- {one})",
            lambda: f"(+{one})",
            lambda: self._call(self._of("abs", "ceiling", "floor", "round"), one),
            lambda: self._call(
                self._of("round", "round-half-to-even"), one, self._of("0", "1", "-1")
            ),
            lambda: self._call("round-half-to-even", one),
            lambda: self._call(self._of("sum", "avg", "max", "min"), self.numbers(deeper)),
            lambda: self._call("sum", self.numbers(deeper), "0"),
            lambda: self._call("string-length", *([self.text(deeper)] if depth % 2 else [])),
            lambda: self._call("compare", self.text(deeper), self.text(deeper)),
            lambda: self._call("position"),
            lambda: self._call("last"),
            lambda: self._call(
                "math:"
                + self._of("exp", "exp10", "log", "log10", "sqrt", "sin", "cos", "tan", "atan"),
                one,
            ),
            lambda: self._call("math:" + self._of("asin", "acos"), "0.5"),
            lambda: self._call("math:" + self._of("pow", "atan2"), one, other),
            lambda: self._call("math:pi"),
            lambda: self.component(),
            lambda: self._call("exactly-one", one),
            lambda: (
                f"xs:{self._of('integer', 'decimal', 'double')}"
                f"({self._of('(n[1], 1)[1]', '3', one)})"
            ),
            lambda: f"({self._of('(@q, 1)[1]', '2.5')} cast as xs:{self._of('double', 'decimal')})",
            lambda: f"({one} treat as xs:anyAtomicType)",
            lambda: f"(if ({self.truth(deeper)}) then {one} else {other})",
        )

    def component(self) -> str:
        day, time = self.random.choice(_DATES), self.random.choice(_TIMES)
        part = self._of("year", "month", "day")
        clock = self._of("hours", "minutes", "seconds")
        return self._of(
            lambda: self._call(f"{part}-from-date", f"xs:date('{day}')"),
            lambda: self._call(f"{part}-from-dateTime", f"xs:dateTime('{time}')"),
            lambda: self._call(f"{clock}-from-dateTime", f"xs:dateTime('{time}')"),
            lambda: self._call(f"{clock}-from-time", f"xs:time('{self.random.choice(_CLOCKS)}')"),
            lambda: self._call(
                self._of("years", "months", "days", "hours", "minutes", "seconds")
                + "-from-duration",
                f"xs:duration('{self.random.choice(_SPANS)}')",
            ),
            lambda: self._call("year-from-date", "(d[1], xs:date('2026-01-02'))[last()]"),
        )

    def moment(self) -> str:
        """Return a time or duration."""
        time, day = self.random.choice(_TIMES), self.random.choice(_DATES)
        clock, length = self.random.choice(_CLOCKS), self.random.choice(_LENGTHS)
        months = self.random.choice(_MONTHS)
        span, another = f"xs:dayTimeDuration('{length}')", f"xs:yearMonthDuration('{months}')"
        return self._of(
            f"xs:dateTime('{time}')",
            f"xs:date('{day}')",
            f"xs:time('{clock}')",
            span,
            another,
            f"xs:duration('{self.random.choice(_SPANS)}')",
            lambda: f"(xs:dateTime('{time}') {self._sign('+', '-')} {span})",
            lambda: f"(xs:date('{day}') {self._sign('+', '-')} {self._of(span, another)})",
            lambda: f"(xs:dateTime('{time}') - xs:dateTime('{self.random.choice(_TIMES)}'))",
            lambda: f"(xs:date('{day}') - xs:date('{self.random.choice(_DATES)}'))",
            lambda: f"({span} {self._sign('*', 'div')} 2)",
            lambda: f"({span} + xs:dayTimeDuration('PT1H'))",
            lambda: self._call("dateTime", "xs:date('2026-01-02')", f"xs:time('{clock}')"),
            lambda: f"xs:{self._of('date', 'time')}(xs:dateTime('{time}'))",
            lambda: f"xs:dateTime(xs:date('{day}'))",
            lambda: self._call("timezone-from-dateTime", f"xs:dateTime('{time}')"),
            lambda: self._call("timezone-from-date", f"xs:date('{day}')"),
            lambda: self._call("timezone-from-time", f"xs:time('{clock}')"),
            lambda: self._call(self._of("max", "min"), f"({span}, xs:dayTimeDuration('PT1H'))"),
            lambda: self._call(self._of("sum", "avg"), f"({span}, xs:dayTimeDuration('PT1H'))"),
        )

    # -- Sequences -------------------------------------------------------------------------

    def numbers(self, depth: int) -> str:
        return self._of(
            lambda: f"({self.number(depth)}, {self.number(depth)})",
            "//n",
            "//@q",
            "(1 to 4)",
            lambda: f"({self.nodes(depth)} ! {self._call('string-length', '.')})",
            lambda: f"(for $v in {self.nodes(0)} return {self._call('string-length', '$v')})",
            lambda: f"{self.nodes(0)}/{self._call('string-length', '.')}",
            lambda: self._call("string-to-codepoints", self.text(depth)),
            lambda: self._call("index-of", self.texts(depth), self.text(0)),
            lambda: f"for $v in (1, 2), $w in ({self.number(depth)}, 3) return $v * $w",
        )

    def texts(self, depth: int) -> str:
        return self._of(
            lambda: f"({self.text(depth)}, {self.text(depth)})",
            lambda: self._call("data", self.nodes(depth)) + " ! string()",
            lambda: f"({self.nodes(depth)} ! {self._call('upper-case', 'string(.)')})",
            lambda: f"{self.path(0)}/string()",
            lambda: self._call("tokenize", self.text(depth)),
            lambda: self._call("tokenize", self.text(depth), self._of("' '", "'[xy]'", "'-'")),
            lambda: (
                self._call("distinct-values", self.texts(depth - 1)) if depth > 0 else "('x', 'y')"
            ),
            lambda: f"(for $t in {self.nodes(0)} return {self._call('lower-case', 'string($t)')})",
        )

    def sequence(self, depth: int) -> str:
        if depth <= 0:
            return self._of(
                lambda: self.nodes(0), lambda: self.texts(0), lambda: self.numbers(0), "()"
            )
        deeper = depth - 1
        inner = self.sequence(deeper)
        return self._of(
            lambda: self.nodes(deeper),
            lambda: self.texts(deeper),
            lambda: self.numbers(deeper),
            lambda: f"({inner}, {self.sequence(deeper)})",
            lambda: f"({inner})[{self.predicate(deeper)}]",
            lambda: self._call(self._of("head", "tail", "reverse"), inner),
            lambda: self._call("insert-before", inner, self._of("0", "1", "2", "9"), "('i', 'j')"),
            lambda: self._call("remove", inner, self._of("0", "1", "2")),
            lambda: self._call("subsequence", inner, self._of("1", "2", "0", "1.5", "-1")),
            lambda: self._call(
                "subsequence", inner, self._of("1", "2", "0"), self._of("1", "2", "1.5")
            ),
            lambda: self._call("distinct-values", self.values(deeper)),
            lambda: self._call("data", self.nodes(deeper)),
            lambda: self._call("unordered", inner),
            lambda: self._call("one-or-more", f"({inner}, 1)"),
            lambda: f"(if ({self.truth(deeper)}) then {inner} else ())",
            lambda: f"(for $s in {self.nodes(deeper)} return ($s/a, {self.number(0)}))",
            lambda: f"({self.nodes(deeper)} ! ({self.text(0)}, {self.number(0)}))",
            lambda: self.moment(),
        )

    def values(self, depth: int) -> str:
        return self._of(
            lambda: self.texts(depth), lambda: self.numbers(depth), lambda: self.nodes(depth)
        )

    # -- Truth values ----------------------------------------------------------------------

    def truth(self, depth: int) -> str:
        if depth <= 0:
            return self._of(
                lambda: self.path(0),
                lambda: f"{self.path(0)} {self._sign('=', '!=')} '{self.random.choice(_TEXTS)}'",
                lambda: f"{self._call('count', self.path(0))} {self._sign('<', '>', '<=', '>=')} 1",
                lambda: self._call(self._of("true", "false")),
            )
        deeper = depth - 1
        equal, order = ("=", "!="), ("=", "!=", "<", "<=", ">", ">=")
        part = self.text(0)
        return self._of(
            lambda: self.nodes(deeper),
            lambda: f"{self.nodes(deeper)} {self._sign(*equal)} {self.nodes(deeper)}",
            lambda: f"{self.texts(deeper)} {self._sign(*order)} {self.texts(deeper)}",
            lambda: f"{self.nodes(deeper)} {self._sign(*order)} {self.text(deeper)}",
            lambda: f"{self.number(deeper)} {self._sign(*order)} {self.number(deeper)}",
            lambda: (
                f"{self.numbers(deeper)} {self._sign(*order)} {self.number(deeper)}"
                if not depth % 2
                else f"({self.numbers(deeper)}) = 2"
            ),
            lambda: f"{self.moment()} {self._sign(*order)} {self.moment()}",
            lambda: f"//d {self._sign(*order)} xs:date('{self.random.choice(_DATES)}')",
            lambda: f"({self.truth(deeper)}) {self._sign('and', 'or')} ({self.truth(deeper)})",
            lambda: f"not({self.truth(deeper)}) {self._sign('and', 'or')} {self.path(0)}",
            lambda: self._call("not", self.truth(deeper)),
            lambda: self._call(
                "boolean", self._of(self.text(deeper), self.number(deeper), self.nodes(deeper))
            ),
            lambda: self._call(self._of("exists", "empty"), self.sequence(deeper)),
            lambda: self._call(
                self._of("contains", "starts-with", "ends-with"), self.text(deeper), part
            ),
            lambda: self._call("matches", self.text(deeper), self._of("'x'", "'^x'", "'[0-9]+$'")),
            lambda: self._call("matches", self.text(deeper), "'X'", "'i'"),
            lambda: self._call(
                "contains-token", self.texts(deeper), self._of("'x'", "' y '", "''")
            ),
            lambda: self._call("codepoint-equal", self.text(deeper), self.text(0)),
            lambda: self._call("deep-equal", self.sequence(deeper), self.sequence(deeper)),
            lambda: self._call("deep-equal", self.node(deeper), self.node(deeper)),
            lambda: self._call("lang", self._of("'en'", "'de'", "'DE-at'")),
            lambda: (
                self._call("lang", "'en'", self.node(deeper))
                if depth < 0
                else self._call("lang", "'en'", "..")
            ),
            lambda: self._call("has-children", *([self.node(deeper)] if depth % 2 else [])),
            lambda: f"{self.node(deeper)} {self._sign('is', '<<', '>>')} {self.node(deeper)}",
            lambda: (
                f"{self._sign('some', 'every')} $v in {self.nodes(deeper)}"
                f" satisfies $v {self._sign(*equal)} {part}"
            ),
            lambda: (
                f"{self._sign('some', 'every')} $v in {self.texts(deeper)} satisfies "
                f"{self._call('string-length', '$v')} > {self.number(0)} or {self.path(0)}"
            ),
            lambda: f"some $v in {self.nodes(0)}, $w in {self.nodes(0)} satisfies $v/a = $w",
            lambda: f"if ({self.truth(deeper)}) then {self.truth(deeper)} else {self.truth(0)}",
            lambda: (
                f"{self.sequence(deeper)} {self._sign('instance of')} "
                + self._of(
                    "xs:string",
                    "xs:integer+",
                    "node()*",
                    "element(a)?",
                    "item()*",
                    "xs:decimal*",
                    "empty-sequence()",
                    "attribute()",
                    "text()*",
                    "xs:untypedAtomic*",
                    "xs:double",
                )
            ),
            lambda: (
                self._of(self.text(deeper), "(@q, 1)[1]", self.number(deeper))
                + f" {self._sign('castable as')} "
                + self._of(
                    "xs:integer",
                    "xs:double",
                    "xs:date",
                    "xs:boolean",
                    "xs:decimal?",
                    "xs:dateTime",
                    "xs:time",
                )
            ),
            lambda: (
                f"'{self.random.choice((*_DATES, *_TIMES))}' {self._sign('castable as')} "
                + self._of("xs:date", "xs:dateTime")
            ),
            lambda: f"xs:boolean({self._of(chr(39) + '1' + chr(39), self.number(deeper))})",
        )


def words(page: str) -> set[str]:
    """Return the axes, operators and functions that the page says a residual may have."""
    table = page[page.index("## What a residual may have") : page.index("A prefix changes nothing")]
    return set(re.findall(r"[a-z][\w-]*", table))
