"""One condition in forms that different evaluators take: index, test, residual, join, Saxon.

`XSCL_EXAMPLES=100` tries 20,000 cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import ClassVar

import pytest
from lxml import etree

from tests.examples import tried
from tests.xscl.shredding.test_residual import parsed
from tests.xscl.shredding.test_xpath_saxon import Saxon, saxon
from tests.xscl.shredding.xpath_cases import Grammar
from tests.xscl.shredding.xpaths import engine, together
from xscl.inspection.explain import placed
from xscl.language.parser import parse
from xscl.language.syntax import Block
from xscl.shredding.conditions.residual import compiled

__all__ = ["saxon"]

SEED = 7
CASES = 200
TOGETHER = 5
"""Conditions that one automaton has at once."""
TEXTS = (
    *("", "x", "X y", " 7 ", "7", "100", "99", "9", "10", "1.0E7", "10000000", "1e2", "-3", "+3"),
    *("INF", "-INF", "NaN", ".5", "5.", "1e", "0x10", "1_000", "1,5", "\u0661", "\u00a07", "--1"),
    *("2026-01-02", "2026-01-02Z", "1970-01-01Z", "2026-01-02T23:30:00-05:00"),
    *("2026-01-03T04:30:00Z", "Fri, 02 Jan 2026 23:30:00 -0500", "1999-12-31T21:20:00-05:00"),
    *("abc", "ABC", "a b c", "Rust", "rust"),
)
_SIGNS = ("=", "!=", "<", "<=", ">", ">=")


class Conditions(Grammar):
    """Draws conditions over `{0}`, which stands for the node before their paths.

    Saxon reads those of the kind `standard` in the same way.
    """

    words: ClassVar = {
        "path": ("{0}a", "{0}b", "{0}@p", "{0}c/d"),
        "sign": _SIGNS,
        "word": [f"'{one}'" for one in ("x", "7", "a", "Rust", "0", "-", "100", "abc")],
        "figure": ("0", "7", "100", "9.5", "-3", "10000000", "0.5"),
        "pattern": ("'^[0-9]'", "'a|x'", "'t$'", "'\\s'"),
    }
    forms: ClassVar = {
        "standard": (
            *("{path} {sign} {word}", "{path} {=;!=} {path}", "{text} {sign} {word}"),
            *("{contains;starts-with;ends-with}({any}, {word})", "matches({any}, {pattern})"),
            "{number;string-length}({any}) {sign} {figure}",
            "number({path}) {sign} number({path})",
        ),
        "own": (
            *("{path} {sign} {figure}", "{path} {<;<=;>;>=} {path}"),
            *("{path} {+;-;*} 1 {sign} {figure}", "{plain-text;tokens}({any}) {sign} {word}"),
            "{abs;round;floor;ceiling}({any}) {sign} {figure}",
            "{year;month;day}-from-date({any}) {sign} {figure}",
            "hours-from-dateTime({any}) {sign} {figure}",
        ),
        "text": (
            *("{lower-case;upper-case;normalize-space;string}({any})", "substring({any}, 1, 2)"),
            *("{substring-before;substring-after}({any}, '-')", "translate({any}, 'abx', 'AB')"),
            "replace({any}, '[0-9]+', '#')",
        ),
        "any": ("{path}", "{path}", "{text}"),
    }
    shallow: ClassVar = {"any": ("{path}",)}


def document(random: Random) -> etree._Element:
    """Return a document with one node for each path."""
    root = etree.Element("r", p=random.choice(TEXTS))
    for name in ("a", "b"):
        etree.SubElement(root, name).text = random.choice(TEXTS)
    etree.SubElement(etree.SubElement(root, "c"), "d").text = random.choice(TEXTS)
    return etree.fromstring(etree.tostring(root))


def forms(condition: str) -> dict[str, str]:
    """Return a condition of a block in forms that other evaluators take."""
    return {
        "as it is": condition,
        "tested": f"not(not({condition}))",
        "residual": f"if ({condition}) then true() else false()",
        "residual, negated": f"not(({condition}) = false())",
        "without the prefilter": f"({condition}) = true()",
        "of a variable": f"some $v in . satisfies ({condition})",
    }


def agreed(
    random: Random, root: etree._Element, texts: Sequence[tuple[str, str]], where: Counter[str]
) -> list[bool]:
    """Return which conditions hold, each written for a block and between documents, in all forms.

    `where` counts the evaluators.
    """
    written = [drawn(random, text) for text, _ in texts]
    paths = [f"/r[{form}]" for each in written for form in each.values()]
    found = iter(map(bool, together(paths, root)))
    held, row = list[bool](), {"x": root, "y": root}
    for (_, between), each in zip(texts, written, strict=True):
        wanted = compiled(parsed(between)).holds(row)
        assert compiled(parsed(f"NOT({between})")).holds(row) is not wanted
        for name, form in each.items():
            shown = name, form, wanted, etree.tostring(root)
            assert next(found) is (wanted if name != "negated" else not wanted), shown
        where.update(place(each["as it is"]))
        held.append(wanted)
    return held


def test_evaluators_agree(saxon: Saxon) -> None:
    random = Random(SEED)
    conditions, where = Conditions(random), Counter[str]()
    for _ in range(tried(CASES) // TOGETHER):
        root = document(random)
        saxon.read(root)
        kinds = [random.choice(("standard", "own")) for _ in range(TOGETHER)]
        cases = [conditions.draw(kind, 3) for kind in kinds]
        texts = [(one.format(""), one.format("x/")) for one in cases]
        held = agreed(random, root, texts, where)
        for kind, (text, _), wanted in zip(kinds, texts, held, strict=True):
            if kind == "standard":
                opinion = saxon.texts(f"/r ! string(boolean({text}))")
                if opinion is not None:
                    where["Saxon"] += 1
                    assert opinion == [str(wanted).lower()], (text, etree.tostring(root))
    for evaluator in ("indexed", "residual", "Saxon"):
        assert where[evaluator] >= tried(CASES) // 20, where


AMOUNTS = (
    *("0.30", "0.20", "0.10", "0.1", ".3", "3", "-0.7", "+1.10", "0", " 2.50 ", "1E-1", "0.7E0"),
    *("12345678901234567.01", "12345678901234567.02", "12345678901234567.010"),
    *("99999999999999999999", "0.000000000000000001", "0.0000000000000000001", "1e20", "INF"),
)
_LITERALS = (
    *("0.1", "0.10", "0.3", "3", "-0.4", "1", "12345678901234567.01", "12345678901234567.015"),
    *("99999999999999999999", "0.000000000000000001"),
)
_OF_AMOUNTS = (
    *("{0} - {1}", "{0} + {1}", "{0} * {1}", "{0} div {1}", "{0} mod {1}", "{0} div {1} - {2}"),
    *("abs({0} - {1})", "round({0} * 7)", "floor({0}) div 10 - 0.1", "ceiling({0} div 3)"),
    *("number({0}) - {1}", "floor(number({0})) div 10 - 0.1", "-{0} + {1}", "string-length({0})"),
    *("{0} * {2} - {1} * {2}", "xs:decimal(0.1) + {0}", "number({0} * {1})", "{0}", "{0}"),
)


def test_evaluators_agree_on_decimals() -> None:
    random = Random(SEED)
    where, held = Counter[str](), Counter[bool]()
    for _ in range(tried(CASES) // TOGETHER):
        root = etree.Element("r")
        for name in "abc":
            etree.SubElement(root, name).text = random.choice(AMOUNTS)
        cases = [amounts(random) for _ in range(TOGETHER)]
        texts = [(one.format(*"abc"), one.format("x/a", "y/b", "x/c")) for one in cases]
        held.update(agreed(random, root, texts, where))
    assert min(where["indexed"], where["residual"]) >= tried(CASES) // 20, where
    assert min(held.values()) >= tried(CASES) // 10, held


def amounts(random: Random) -> str:
    """Return a comparison over the paths `{0}` to `{2}`, whose values are numbers."""
    if random.random() < 0.3:
        one = random.choice(("{0}", "{0}", "abs({0})", "round({0})", "number({0})"))
        return f"{one} {random.choice(_SIGNS)} {random.choice(_LITERALS)}"
    end = random.choice(("{2}", random.choice(_LITERALS), random.choice(_OF_AMOUNTS)))
    return f"{random.choice(_OF_AMOUNTS)} {random.choice(_SIGNS)} {end}"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("a - b = 0.10", True),
        ("a - b = c", True),
        ("0.30 - 0.20 = 0.10", True),
        ("xs:decimal(a) - xs:decimal(b) = xs:decimal('0.1')", True),
        ("number(a) - number(b) = 0.10", False),
        ("number(a) - b = c", False),
        ("sum(t) = 10", True),
        ("sum(t ! number(.)) = 10", False),
        ("avg(t) = 0.01 and max(t) = min(t)", True),
        ("string(sum(t)) = '10' and string(a - b) = '0.1'", True),
        ("long + 0.01 = longer and long < longer and not(long = longer)", True),
        ("long < 12345678901234567.02 and longer >= 12345678901234567.02", True),
        ("number(long) = number(longer)", True),
        ("1 div 3 = 0.333333333333333333", True),
        ("a div 0 > 100 and -a div 0 < -100", True),
        ("string(99999999999999999999 + 1) = '1.0E20'", True),
        ("xs:decimal('1E0') = 1", False),
        ("not(xs:decimal('1E0') = 1)", False),
        ("xs:decimal(a) instance of xs:decimal", True),
    ],
)
def test_decimals_in_a_block(condition: str, holds: bool) -> None:
    root = etree.fromstring(
        "<r><a>0.30</a><b>0.20</b><c>0.1</c><long>12345678901234567.01</long>"
        f"<longer>12345678901234567.02</longer>{'<t>0.01</t>' * 1_000}</r>"
    )
    for name, form in forms(condition).items():
        assert bool(engine(f"/r[{form}]", root)) is holds, name


def drawn(random: Random, condition: str) -> dict[str, str]:
    """Return some forms of a condition, and its negation."""
    known = forms(condition)
    names = ("as it is", *random.sample([*known][1:], 2))
    return {**{name: known[name] for name in names}, "negated": f"not({condition})"}


def place(condition: str) -> list[str]:
    """Return where the parts of a condition are evaluated."""
    block = parse(f"S/r[{condition}]").expression
    assert isinstance(block, Block)
    return [one.where for one in placed(block)]
