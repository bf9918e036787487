"""Constant expressions and texts at their limits: functions, arguments, nesting, lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from elementpath.xpath31 import XPath31Parser

from cep_core.algebra.functions import FUNCTIONS as TYPED
from xscl.language.functions import EVENT_FUNCTIONS, OPERANDS

LANGUAGES = ("xscl", "cel", "sase", "eql")
_XPATH = sorted(
    name
    for name, token in XPath31Parser.symbol_table.items()
    if getattr(token, "label", "") in ("function", "constructor function")
    and name.replace("-", "").replace(":", "").isalnum()
)
_OWN = sorted(OPERANDS)
_EVENTS = sorted({*TYPED, *EVENT_FUNCTIONS, "COALESCE", "nothing"})

_NUMBERS = (
    *("0", "1", "2", "1.5", "300", "99999999", "9999999999999999999999", "0.0000000001"),
    *("1e308", "1e-308", "1e999", "3000000000000", "2147483648", "9007199254740993"),
)
_SIGNS = ("", "", "-", "--")
_REGEXES = (
    r". a a* (a+)+$ (a|aa)+$ a(.*b)? (.*)* .{1000} (.{100}){100} [^x] "
    r"((((((((((a?){20}){20}))))))))) \p{L}+ \ ( [ a{2,1} ^ $ | (?:)"
)
_PATTERNS: Sequence[str] = tuple(_REGEXES.split())
_PICTURES: Sequence[str] = (*"IwW1iA", "Ww", "[D,999999999-*]", "[Y9999999]", "#" * 50, "0" * 50)
_TEXTS: Sequence[str] = (
    *("", "x", "Q" * 300, "a" * 700, "é" * 300, "\u0130" * 300, "&", "]]>", "1", "NaN", "INF"),
    *("2026-01-01", "2026-01-01T00:00:00Z", "99999999999-01-01", "P99999999999Y", "PT1E9S"),
    *("http://www.w3.org/2013/collation/UCA", "http://www.w3.org/2005/xpath-functions/collation"),
    *("file:///etc/hosts", "%" * 300, "_" * 300, "a%" * 100, "NFKD", "en", "xs:string"),
)
_WORDS = (
    "( ) [ ] { } /* */ -- (: ' \" a/ //a 1 1e 1e9 . .. @ | , -> ->x not( <a> </a> &lt; "
    "&#0; Q{ {x} JOIN{ FOLD{ $1. $ a, - + * = ! a: a:: # ; ? -a SEQ( [S] ` \\"
)
_PARTS = (
    "x AND |OR |SELECT |FROM |<a |<a b=\"|AT '|ZONE '|PUBLISH |FOLLOWED |FOLLOWED BY|"
    "NEXT |NAMESPACE a='|x=y |to |CASE WHEN |LIKE '|IN (|EVENT |WHERE "
)
UNITS: Sequence[str] = (
    *_WORDS.split(),
    *_PARTS.split("|"),
    *"\u2018\u201c \n\t\u0660\u00e9\x01\U0001f600",
)
"""Pieces that a text repeats up to its limit."""


class Case(NamedTuple):
    """A query of a language."""

    language: str
    text: str


def case(random: Random) -> Case:
    """Return a query."""
    language = random.choice(LANGUAGES)
    if random.random() < 0.12:
        return Case(language, _repeated(random, language))
    made = _XSCL if language == "xscl" else _OF_EVENTS[language]
    text = random.choice(made)(random)
    return Case(language, text)


def _repeated(random: Random, language: str) -> str:
    """Return a text that repeats a piece, at the length that is allowed, or a little beyond."""
    unit = random.choice(UNITS)
    most = 65_536 if language == "xscl" else 100_000
    length = random.choice((100, 2_000, 9_990, 20_000, most, most, most + 1))
    body = (unit * (length // len(unit) + 1))[:length]
    before, after = random.choice(
        (
            ("", ""),
            ("S//k[", "]"),
            ("S//k[. = '", "']"),
            ("S//r->a JOIN{", ", 1 d} S//r->b"),
            ("SELECT <o>", "</o> FROM S//r->a"),
            ("SELECT k FROM S ", ""),
            ("SELECT k FROM FILTER{", "} S"),
            ("EVENT S a WHERE ", ""),
            ("S//k[", ""),
            ("", " S"),
        )
    )
    return before + body[: max(0, length - len(before) - len(after))] + after


# -- Expressions ---------------------------------------------------------------------------

_LEAVES: Mapping[str, Sequence[str]] = {
    "xpath": (
        *(".", "..", "//k", "@*", "k", "()", "*", "position()", "last()", "/", "ancestor::*"),
        *("(1 to 999999999)", "1 to 10"),
    ),
    "operand": ("x/*",),
    "event": ("NULL",),
}
_NAMES: Mapping[str, Sequence[str]] = {
    "xpath": (*_XPATH, *_OWN),
    "operand": _OWN,
    "event": _EVENTS,
}
_FORMS: Mapping[str, Sequence[str]] = {
    "xpath": (
        *("{0} + {1}", "{0} * {1}", "{0} - {1}", "{0} div {1}", "{0} mod {1}", "{0} idiv {1}"),
        *("{0} = {1}", "{0} || {1}", "{0} to {1}", "({0}, {1})", "{0} | {1}", "{0}[{1}]"),
        *("{0} and {1}", "not({0} < {1})", "if ({0}) then {1} else {0}", "-{0}", "{0} eq {1}"),
        *("for $i in {0} return {1}", "some $i in {0} satisfies {1}", "{0} ! {1}", "{0} => {1}"),
        *("{0} cast as xs:integer", "{0} instance of xs:double", "let $x := {0} return {1}"),
    ),
    "operand": ("({0} + {1})", "({0} - {1})", "({0} * {1})"),
    "event": (
        *("{0} + {1}", "{0} + {0}", "{0} * {1}", "{0} - {1}", "{0} / {1}", "{0} % {1}", "-{0}"),
        *("({0} + {1})", "CASE WHEN {0} = {1} THEN {0} ELSE {1} END", "COALESCE({0}, {1})"),
        *("{0} = {1}", "NOT {0} < {1}", "{0} LIKE {1}", "{0} IN ({1}, {0})", "{0} IS NULL"),
    ),
}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _number(random: Random) -> str:
    return random.choice(_SIGNS) + random.choice(_NUMBERS)


def _constant(random: Random, of: type = object) -> str:
    if of is str or (of is object and random.random() < 0.5):
        pool: Sequence[str] = random.choice((_TEXTS, _PATTERNS, _PICTURES))
        return _quoted(random.choice(pool))
    return _number(random)


def _drawn(random: Random, kind: str, depth: int, names: Sequence[str] = ()) -> str:
    """Return an expression of XPath, an operand of XSCL between documents, or one over events."""
    drawn = random.random()
    if depth <= 0 or drawn < 0.2:
        return random.choice((*names, *names, _constant(random), *_LEAVES[kind]))
    if drawn < 0.75:
        return _call(random, kind, depth, names)
    one, other = (_drawn(random, kind, depth - 1, names) for _ in range(2))
    return random.choice(_FORMS[kind]).format(one, other)


def _call(random: Random, kind: str, depth: int, names: Sequence[str]) -> str:
    """Return the call of a function, mostly with the arguments that it has."""
    name = random.choice(_NAMES[kind])
    known = OPERANDS.get(name) or EVENT_FUNCTIONS.get(name) or TYPED.get(name)
    kinds: Sequence[type] = (object,) * random.choice((0, 1, 1, 1, 2, 2, 2, 3, 3, 4))
    constants = 0
    if known is not None and random.random() < 0.8:
        kinds, constants = known.arguments[:3], known.constants
    arguments = [
        _constant(random, one)
        if at and at >= len(kinds) - constants
        else _drawn(random, kind, depth - 1, names)
        for at, one in enumerate(kinds)
    ]
    prefix = random.choice(("", "", "", "fn:", "xs:", "math:")) if kind == "xpath" else ""
    return f"{prefix}{name}({', '.join(arguments)})"


def _xpath(random: Random, depth: int) -> str:
    return _drawn(random, "xpath", depth)


def _operand(random: Random, depth: int, variables: Sequence[str]) -> str:
    return _drawn(random, "operand", depth, variables)


def _event(random: Random, depth: int, columns: Sequence[str]) -> str:
    return _drawn(random, "event", depth, columns)


_VARIABLES = ("x", "y")
_K, _L = "S//r[./k->x]", "S//r[./k->y]"
_CALENDARS = (*_TEXTS, "* * * * *", "0 0 31 2 *", "*/1 * * * * *")


def _constructor(random: Random) -> str:
    one, other = (_operand(random, 3, ("x",)) for _ in range(2))
    return f'SELECT <o a="{{{one}}}">{{{other}}}</o> FROM {_K}'


def _joined(random: Random) -> str:
    sign = random.choice(("=", "<", "!="))
    one, other = (_operand(random, 3, _VARIABLES) for _ in range(2))
    return f"{_K} FOLLOWED BY{{{one} {sign} {other}, 1 d}} {_L}"


def _negated(random: Random) -> str:
    one, other = _operand(random, 3, ("x",)), _operand(random, 2, ("y",))
    return f"{_K} JOIN{{x = y AND NOT(contains({one}, {other})), 1 d}} {_L}"


def _folded(random: Random) -> str:
    value = _operand(random, 2, ("$.n", "$2.x"))
    return f"{_K} FOLD{{$2.x = $.x, $2.x != $1.x, {value} AS n}} {_K}"


_XSCL: tuple[Callable[[Random], str], ...] = (
    *(_constructor, _joined, _negated, _folded),
    lambda r: f"S//k[{_xpath(r, 3)}]",
    lambda r: f"S//k[{_xpath(r, 1)}]",
    lambda r: f"S//r[{_xpath(r, 2)} = {_xpath(r, 2)}]->x",
    lambda r: f"S//r[./k[{_xpath(r, 3)}]->x] JOIN{{x = y, 1 d}} {_L}",
    lambda r: f"SELECT <o>{'{x}' * r.choice((1, 50, 2_000))}</o> FROM {_K}",
    lambda r: f"S//k[{' and '.join(_xpath(r, 1) for _ in range(r.choice((2, 20, 60))))}]",
    lambda r: f"AT {_quoted(r.choice(_CALENDARS))} JOIN{{1 d}} S//k->x",
    lambda r: f"{_K} JOIN{{x = y, {_number(r)} {r.choice(('d', 's', 'min', 'y', ''))}}} {_L}",
)
_COLUMNS = ("k", "k", "n", "f")
_OF_EVENTS: Mapping[str, tuple[Callable[[Random], str], ...]] = {
    "cel": (
        lambda r: f"SELECT {_event(r, 3, _COLUMNS)} AS x, {_event(r, 3, _COLUMNS)} AS y FROM S",
        lambda r: f"SELECT k FROM FILTER{{{_event(r, 3, _COLUMNS)} = {_event(r, 3, _COLUMNS)}}} S",
        lambda r: (
            f"SELECT z FROM (SELECT k, n, f, {r.choice(_COLUMNS)} AS z FROM S)"
            f" FOLD{{TRUE, TRUE, {_event(r, 2, ('$.z', '$.z', '$2.k', '$2.n'))} AS z}} S"
        ),
        lambda r: f"SELECT k FROM S JOIN{{{_event(r, 3, ('$1.k', '$2.k', '$1.n'))} = $2.k, 1 d}} S",
        lambda r: (
            f"SELECT MAX(x) AS m, SUM(y) AS s FROM (SELECT {_event(r, 2, _COLUMNS)} AS x,"
            f" {_event(r, 2, ('n', 'f'))} AS y FROM S) WINDOW {_number(r)} s"
        ),
        lambda r: _nested_selects(r),
    ),
    "sase": (
        lambda r: (
            f"EVENT SEQ(S a, S b) WHERE {_event(r, 3, ('a.k', 'b.k', 'a.n'))} = b.k WITHIN 1 d"
        ),
        lambda r: (
            f"EVENT SEQ(S a, S+ b[]) WHERE b[i].n >= {_number(r)} WITHIN {_number(r)} h"
            " RETURN LIST(b[].k) AS l, SUM(b[].n) AS s"
        ),
        lambda r: (
            f"EVENT S a WHERE {_event(r, 4, ('a.k', 'a.n', 'a.f'))} = {_event(r, 2, ('a.k',))}"
        ),
    ),
    "eql": (
        lambda r: f"SELECT {_event(r, 3, ('s.k', 's.n', 's.f'))} AS x FROM S s",
        lambda r: (
            f"SELECT a.k AS x FROM S a; S b WHERE {_event(r, 3, ('a.k', 'b.k'))} = b.k WITHIN 1 h"
        ),
        lambda r: f"SELECT s.k AS x FROM S s WHERE {_event(r, 4, ('s.k', 's.n'))} = s.k",
    ),
}


def _nested_selects(random: Random) -> str:
    """Return SELECTs inside one another that multiply a value again and again."""
    text = "S"
    column, step = random.choice((("k", "k + k"), ("n", "n * n"), ("f", "f * f"), ("n", "n + n")))
    for _ in range(random.choice((2, 20, 60))):
        text = f"(SELECT {step} AS {column} FROM {text})"
    return f"SELECT {column} AS x FROM {text}"


DOCUMENTS: tuple[str, ...] = (
    "<r><k>{}</k><n>999999999999999999</n><f>1e308</f></r>".format("a" * 10_000),
    "<r><k>{}</k><n>-1</n><f>NaN</f></r>".format("a b " * 2_500),
    "<r>{}<n>0</n></r>".format("<k>é</k>" * 1_000),
    "<r>{}{}</r>".format("<k>" * 200 + "a" * 8_000, "</k>" * 200),
    '<r><k a="{}">x</k><n>{}</n></r>'.format("y" * 9_000, "9" * 400),
    "<r><k>2026-01-01T00:00:00Z</k><n>1</n><f>0</f></r>",
)
"""Documents of some 10 kB."""
