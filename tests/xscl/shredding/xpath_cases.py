"""Random expressions over every axis, operator and function of docs/languages/xpath.md.

They are typed, so that most have a value in XPath 3.1, too: what Saxon refuses is no case.  The
differences that the page lists are not drawn: an order of two values without a type, a text beside
a number that is none, several items where one is asked for, dates of feeds.  Nor is `! ./path`,
which Saxon 13.1 evaluates as `/path`, without its repeated nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import ClassVar

from lxml import etree

from xscl.language.xpath import ALLOWED

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

WORDS: Mapping[str, Sequence[str]] = {
    "word": _TEXTS,
    "figure": ("0", "1", "2", "12", "1.5", "2.5", "-1", "1e2", "0.5e0"),
    "date": _DATES,
    "time": _TIMES,
    "clock": ("03:04:05", "23:59:59.25Z", "00:00:00-05:00"),
    "length": ("P1D", "PT12H", "-PT1.5S", "P2DT3H4M5S", "PT0S"),
    "months": ("P1Y", "P14M", "-P3M"),
    "duration": ("P1Y2M3DT4H5M6.5S", "P1D", "-P1Y"),
    "axis": [axis for axis in AXES if axis != "attribute"],
    "test": (
        *("a", "a", "b", "*", "node()", "text()", "*:a", f"Q{{{SPACE}}}a", "n", "d"),
        *(f"Q{{{SPACE}}}*", "element()", "element(a)", "comment()", "processing-instruction()"),
    ),
    "attribute": ("p", "q", "*", "node()", "attribute()", f"Q{{{SPACE}}}p", "*:p"),
    "start": ("", "", "", "./", ".//", "/", "//", "/r/", "../"),
    "slash": ("/", "/", "/", "//"),
    "equal": ("=", "!="),
    "order": ("=", "!=", "<", "<=", ">", ">="),
    "type": (
        *("xs:string", "xs:integer+", "node()*", "element(a)?", "item()*", "xs:decimal*"),
        *("empty-sequence()", "attribute()", "text()*", "xs:untypedAtomic*", "xs:double"),
    ),
    "target": (
        *("xs:integer", "xs:double", "xs:date", "xs:boolean", "xs:decimal?", "xs:dateTime"),
        "xs:time",
    ),
}
"""Expressions without operands."""

SAME = {"path", "steps", "step", "predicate", "node", "numbers", "texts", "values", "cast", "any"}
"""Kinds whose parts may be nested as deeply as they are."""

SHALLOW: Mapping[str, Sequence[str]] = {
    "conditions": ("",),
    "nodes": ("{path:0}",),
    "text": ("'{word}'", "string(@p)", "string()"),
    "number": ("{figure}", "{figure}", "count({path:0})"),
    "sequence": ("{nodes:0}", "{texts:0}", "{numbers:0}", "()"),
    "truth": (
        *("{path:0}", "{path:0} {equal} '{word}'", "count({path:0}) {order} 1"),
        "{true;false}()",
    ),
}
"""The forms of what is not nested."""

FORMS: Mapping[str, Sequence[str]] = {
    # -- Nodes
    "path": (*("{start}{steps}",) * 30, "."),
    "steps": (*("{step}",) * 2, "{step}{slash}{step}", "{step}{slash}{step}{slash}{step}"),
    "step": (
        *(*("{test}{conditions}",) * 4, *("{axis}::{test}{conditions}",) * 14),
        *("{attribute;}::{attribute}{conditions}", "{@p;@q;@*;attribute(p)}{conditions}", ".."),
    ),
    "conditions": (*("",) * 2, *("[{predicate}]",) * 2, "[{predicate}][{predicate}]"),
    "predicate": (
        *("1", "2", "last()", "position() = 2", "position() < last()", *("{truth}",) * 6),
        *("fn:position() = fn:last()", "position() {=;<;>=} 2"),
    ),
    "nodes": (
        *("{path}",) * 6,
        *("({nodes} {|;union} {nodes})", "({nodes} {intersect;except} {nodes})"),
        *("({nodes})[{predicate}]", "{path}/({steps:0} | {steps:0})"),
        *("{innermost;outermost}({nodes})", "root()//a", "root({node})"),
        *("({nodes} ! {;/;//;/r/;../;.//}{steps:0})", "({nodes} treat as node()*)"),
    ),
    "node": (
        *("@p", "..", "({nodes})[1]", "({nodes})[last()]", "head({nodes})"),
        "zero-or-one(({nodes})[2])",
    ),
    # -- Values
    "text": (
        *("'{word}'", "string({node})", "string({number})", "string({truth})"),
        *("concat({text}, {number}, {text})", "({text} {||;} {text})"),
        *("string-join({texts}, {text})", "string-join({nodes})", "substring({text}, {number})"),
        *("substring({text}, {number}, {number:0})", "normalize-space({text})"),
        "normalize-unicode({text}, {'NFC';'NFKD';''})",
        "translate({text}, 'xy', {'z';'';'yxq'})",
        *("{upper-case;lower-case;encode-for-uri}({text})", "normalize-space()"),
        "{substring-before;substring-after}({text}, {text})",
        "replace({text}, {'x';'[xy]+';'(x)(y)'}, 'z$1')",
        "codepoints-to-string(string-to-codepoints({text}))",
        *("{name;local-name;namespace-uri}({node})", "string(path({node}))", "xs:string({number})"),
        *("(if ({truth}) then {text} else {text})", "exactly-one({text})"),
    ),
    "number": (
        *("{figure}", "count({sequence})", "number({any})", "number()"),
        *("({number} {+;-;*} {number})", "({number} {div;mod} {2;4;2.5;1e0;-3})"),
        *("(count({nodes:0}) {idiv;} {2;-3})", "(- {number})", "(+{number})"),
        *("{abs;ceiling;floor;round}({number})", "round-half-to-even({number})"),
        *("{round;round-half-to-even}({number}, {0;1;-1})", "{sum;avg;max;min}({numbers})"),
        *("sum({numbers}, 0)", "string-length({text})", "string-length()"),
        *("compare({text}, {text})", "position()", "last()", "math:{asin;acos}(0.5)"),
        "math:{exp;exp10;log;log10;sqrt;sin;cos;tan;atan}({number})",
        *("math:{pow;atan2}({number}, {number})", "math:pi()", "{component}"),
        *("exactly-one({number})", "xs:{integer;decimal;double}({cast})"),
        "({(@q, 1)[1];2.5} cast as xs:{double;decimal})",
        *("({number} treat as xs:anyAtomicType)", "(if ({truth}) then {number} else {number})"),
    ),
    "any": ("@q", "n[1]", "{node}", "{text}"),
    "cast": ("(n[1], 1)[1]", "3", "{number}"),
    "component": (
        "{year;month;day}-from-date(xs:date('{date}'))",
        "{year;month;day}-from-dateTime(xs:dateTime('{time}'))",
        "{hours;minutes;seconds}-from-dateTime(xs:dateTime('{time}'))",
        "{hours;minutes;seconds}-from-time(xs:time('{clock}'))",
        "{years;months;days;hours;minutes;seconds}-from-duration(xs:duration('{duration}'))",
        "year-from-date((d[1], xs:date('2026-01-02'))[last()])",
    ),
    "day-time": ("xs:dayTimeDuration('{length}')",),
    "span": ("{day-time}", "xs:yearMonthDuration('{months}')"),
    "moment": (
        *("xs:dateTime('{time}')", "xs:date('{date}')", "xs:time('{clock}')", "{span}", "{span}"),
        *("xs:duration('{duration}')", "(xs:dateTime('{time}') {+;-} {day-time})"),
        *("(xs:date('{date}') {+;-} {span})", "(xs:dateTime('{time}') - xs:dateTime('{time}'))"),
        *("(xs:date('{date}') - xs:date('{date}'))", "({day-time} {*;div} 2)"),
        *("({day-time} + xs:dayTimeDuration('PT1H'))", "xs:{date;time}(xs:dateTime('{time}'))"),
        *("dateTime(xs:date('2026-01-02'), xs:time('{clock}'))", "xs:dateTime(xs:date('{date}'))"),
        *("timezone-from-dateTime(xs:dateTime('{time}'))", "timezone-from-date(xs:date('{date}'))"),
        "timezone-from-time(xs:time('{clock}'))",
        "{max;min;sum;avg}(({day-time}, xs:dayTimeDuration('PT1H')))",
    ),
    # -- Sequences
    "numbers": (
        *("({number}, {number})", "//n", "//@q", "(1 to 4)", "({nodes} ! string-length(.))"),
        *("(for $v in {nodes:0} return string-length($v))", "{nodes:0}/string-length(.)"),
        *("string-to-codepoints({text})", "index-of({texts}, {text:0})"),
        "(for $v in (1, 2), $w in ({number}, 3) return $v * $w)",
    ),
    "texts": (
        *("({text}, {text})", "data({nodes}) ! string()", "({nodes} ! upper-case(string(.)))"),
        *("{path:0}/string()", "tokenize({text})", "tokenize({text}, {' ';'[xy]';'-'})"),
        *("distinct-values({texts})", "(for $t in {nodes:0} return lower-case(string($t)))"),
    ),
    "values": ("{texts}", "{numbers}", "{nodes}"),
    "sequence": (
        *("{nodes}", "{texts}", "{numbers}", "({sequence}, {sequence})"),
        *("({sequence})[{predicate}]", "{head;tail;reverse}({sequence})"),
        *("insert-before({sequence}, {0;1;2;9}, ('i', 'j'))", "remove({sequence}, {0;1;2})"),
        *("subsequence({sequence}, {1;2;0;1.5;-1})", "subsequence({sequence}, {1;2;0}, {1;2;1.5})"),
        *("distinct-values({values})", "data({nodes})", "unordered({sequence})"),
        *("one-or-more(({sequence}, 1))", "(if ({truth}) then {sequence} else 'e')", "{moment}"),
        *("(for $s in {nodes} return ($s/a, {number:0}))", "({nodes} ! ({text:0}, {number:0}))"),
    ),
    "truth": (
        *("{nodes}", "{nodes} {equal} {nodes}", "{texts} {order} {texts}"),
        *("{nodes} {order} {text}", "{number} {order} {number}", "{numbers} {order} {number}"),
        *("({numbers}) = 2", "{moment} {order} {moment}", "//d {order} xs:date('{date}')"),
        *("({truth}) {and;or} ({truth})", "not({truth}) {and;or} {path:0}", "not({truth})"),
        *("boolean({text})", "boolean({number})", "boolean({nodes})", "{exists;empty}({sequence})"),
        *("{contains;starts-with;ends-with}({text}, {text:0})", "matches({text}, 'X', 'i')"),
        *("matches({text}, {'x';'^x';'[0-9]+$'})", "contains-token({texts}, {'x';' y ';''})"),
        *("codepoint-equal({text}, {text:0})", "deep-equal({sequence}, {sequence})"),
        *("deep-equal({node}, {node})", "lang({'en';'de';'DE-at'})", "lang('en', ..)"),
        *("has-children({node})", "has-children()", *("{node} {is;<<;>>} {node}",) * 2),
        "{some;every} $v in {nodes} satisfies $v {equal} {text:0}",
        "{some;every} $v in {texts} satisfies string-length($v) > {number:0} or {path:0}",
        "some $v in {nodes:0}, $w in {nodes:0} satisfies $v/a = $w",
        *("if ({truth}) then {truth} else {truth:0}", "{sequence} {instance of;} {type}"),
        *("{text} {castable as;} {target}", "{number} {castable as;} {target}"),
        *("'{date}' {castable as;} xs:{date;dateTime}", "xs:boolean('1')", "xs:boolean({number})"),
    ),
}
"""The forms of each kind of expression, with its parts in braces.

`{kind}` is one of a kind, nested less deeply, `{kind:0}` one that is not nested, and `{a;b}` one of
some words, which is counted.
"""
_CHOICE = re.compile(r"\{([^{}]*;[^{}]*)\}")
_KIND = re.compile(r"\{([\w-]+)(:0)?\}")
_CALL = re.compile(r"(?<![\w:-])((?:math:|fn:)?)([\w-]+)\(")


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


class Grammar:
    """Draws texts of a grammar: `words` stand for themselves, `forms` have parts in braces."""

    words: ClassVar[Mapping[str, Sequence[str]]]
    forms: ClassVar[Mapping[str, Sequence[str]]]
    shallow: ClassVar[Mapping[str, Sequence[str]]] = {}
    same: ClassVar[Collection[str]] = ()

    def __init__(self, random: Random) -> None:
        self.random = random
        self.drawn: Counter[str] = Counter()

    def draw(self, kind: str, depth: int = 0) -> str:
        """Return a text of a kind, which is nested so deeply at most."""
        if kind in self.words:
            return self._counted(self.random.choice(self.words[kind]))
        forms = self.shallow.get(kind, self.forms[kind]) if depth <= 0 else self.forms[kind]
        words = _CHOICE.sub(
            lambda found: self._counted(self.random.choice(found[1].removesuffix(";").split(";"))),
            self.random.choice(forms),
        )
        inner = depth if kind in self.same else depth - 1
        return _KIND.sub(
            lambda found: self.draw(found[1], 0 if found[2] else inner),
            _CALL.sub(self._called, words),
        )

    def _counted(self, word: str) -> str:
        self.drawn[word] += 1
        return word

    def _called(self, call: re.Match[str]) -> str:
        return call[0]


class Cases(Grammar):
    """Draws expressions, and counts the axes, operators and functions that are in them."""

    words, forms, shallow, same = WORDS, FORMS, SHALLOW, SAME

    def _called(self, call: re.Match[str]) -> str:
        prefix, name = call.groups()
        if name not in ALLOWED:
            return call[0]
        self.drawn[name] += 1
        return f"{prefix or ('fn:' if self.random.random() < 0.05 else '')}{name}("


def words(page: str) -> set[str]:
    """Return the axes, operators and functions that the page says a residual may have."""
    table = page[page.index("## What a residual may have") : page.index("A prefix changes nothing")]
    return set(re.findall(r"[a-z][\w-]*", table))
