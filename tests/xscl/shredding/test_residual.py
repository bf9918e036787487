"""Residual predicates: worked cases, and equal to what libxml2's XPath says of each choice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.examples import examples
from tests.oracle.patterns import is_number as is_xpath_number
from tests.oracle.patterns import number
from xscl.language.parser import parse
from xscl.language.syntax import (
    And,
    Arithmetic,
    Call,
    Comparison,
    Constant,
    Decorated,
    Join,
    NameTest,
    Not,
    Operand,
    Or,
    Path,
    Predicate,
    Step,
    VariablePath,
)
from xscl.language.unparse import unparse
from xscl.shredding.conditions.residual import compiled
from xscl.shredding.nodes.tree import AttributeNode, Item

Row: TypeAlias = "Mapping[str, Item | None]"


def element(text: str) -> etree._Element:
    return etree.fromstring(f"<a>{text}</a>")


def parsed(predicate: str) -> Predicate:
    expression = parse(f"S//a->x JOIN{{{predicate}, 5}} S//b->y").expression
    assert isinstance(expression, Join)
    assert expression.predicate is not None
    return expression.predicate


def holds(predicate: str, x: str, y: str = "") -> bool:
    return compiled(parsed(predicate))({"x": element(x), "y": element(y)})


# -- Worked cases ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("predicate", "x", "y", "expected"),
    [
        # string values; order by code point
        ("x = y", "Wro<b>x</b>", "Wrox", True),
        ("x = y", "3.0", "3", False),
        ("x != y", "3.0", "3", True),
        ("x < y", "Z", "a", True),
        ("x < y", "\uffee", "\U0001f600", True),
        ("x <= y", "a", "a", True),
        ("x > y", "a", "a", False),
        ("x >= '3'", "10", "", False),
        # two values of documents are ordered as what both of them are
        ("x < y", "9", "10", True),
        ("x < y", "100", "30", False),
        ("x > y", "40", "40.00", False),
        ("x >= y", "40", " 4.0E1\n", True),
        ("x < y", "007", "8", True),
        ("x/b > y/b", "<b>9</b><b>a</b>", "<b>b</b><b>10</b>", False),
        ("x/b < y/b", "<b>9</b><b>a</b>", "<b>b</b><b>10</b>", True),
        ("x < y", "9", "a", False),
        ("x >= y", "9", "a", False),
        ("NOT x < y", "9", "a", True),
        ("x > y", "", "5", False),
        ("x < y", "", "5", False),
        ("x < y", "NaN", "5", False),
        ("NOT x >= y", "NaN", "5", True),
        ("x < y", "2026-01-02T00:00:00+02:00", "2026-01-01T23:00:00Z", True),
        ("x < y", "Mon, 05 Jan 2026 00:00:00 GMT", "Fri, 09 Jan 2026 00:00:00 GMT", True),
        ("x <= y", "2026-01-02", "2026-01-02T00:00:00Z", True),
        ("x < y", "2026-01-02", "soon", True),
        ("x < y", "2026-01-02", "2027", False),
        # what a function of texts returns is a text, as is a literal in quotes
        ("string(x) < y", "9", "10", False),
        ("x < '10'", "9", "", False),
        # = and != compare texts: they are keys
        ("x = y", "007", "7", False),
        ("x != y", "40", "40.00", True),
        ("number(x) != number(y)", "40", "40.00", False),
        ("number(x) = number(y)", "1E3", "1000", True),
        # numbers, if one side is one
        ("x = 3", " 3.0\n", "", True),
        ("3 = x", "3.0", "", True),
        ("number(x) = y", "3.0", "3", True),
        ("number(x) < y", "9", "10", True),
        ("string-length(x) = y", "abc", "3.0", True),
        ("x + 1 = y", "1", "2.0", True),
        ("x = 3", "three", "", False),
        ("x != 3", "three", "", True),
        ("x < 3", "three", "", False),
        ("x >= 3", "three", "", False),
        ("NOT x < 3", "three", "", True),
        # functions without a value
        ("number(x) = number(y)", "a", "a", False),
        ("number(x) != number(y)", "a", "a", True),
        ("number(x) <= y", "a", "3", False),
        ("lower-case(number(x)) = '3'", "3.0", "", True),
        ("lower-case(number(x)) = 'nan'", "a", "", False),
        # functions see the string value
        ("lower-case(x) = lower-case(y)", "<b>A</b>b", "aB", True),
        ("substring-before(x, '@') = y", "ann@example", "ann", True),
        ("substring-after(x, '@') = y", "ann", "", True),
        ("normalize-space(lower-case(x)) = y", " A  b ", "a b", True),
        # arithmetic
        ("x - 1 - 1 = y", "5", "3", True),
        ("-x = y", "5", "-5", True),
        ("x * y = 1", "0.5", "2", True),
        ("x div y = 2.5", "5", "2", True),
        ("x mod y = 1", "5", "2", True),
        ("x mod y = -1", "-5", "2", True),
        ("x mod y = 1", "5", "-2", True),
        ("x mod y = 1.5", "5.5", "2", True),
        ("x div y > 1000", "1", "0", True),
        ("x div y < -1000", "-1", "0", True),
        ("x div y = x div y", "0", "0", False),
        ("x mod y = x mod y", "1", "0", False),
        ("1 div x = 1 div y", "0", "0", True),
        ("(1 div x) mod 2 = y", "0", "0", False),
        ("2 mod (1 div x) = 2", "0", "", True),
        ("x + y != x + y", "a", "1", True),
        # a choice of nodes
        ("x/b = y", "<b>1</b><b>2</b>", "2", True),
        ("x/b != y", "<b>1</b><b>2</b>", "2", True),
        ("x/b != y", "<b>2</b><b>2</b>", "2", False),
        ("NOT x/b = y", "<b>1</b><b>2</b>", "2", False),
        ("x/b = y", "", "", False),
        ("x/b != y", "", "", False),
        ("NOT x/b != y", "", "", True),
        ("x/b = y/c", "<b>1</b><b>2</b>", "<c>3</c><c>2</c>", True),
        ("x//c/@d = y", "<b><c d='1'/></b>", "1", True),
        ("x/text() = y", "1<b>2</b>3", "3", True),
        ("x/b + x/b = 3", "<b>1</b><b>2</b>", "", True),
        ("x/b + y/b = 3", "<b>1</b>", "", False),
        ("lower-case(x/b) = y", "<b>P</b><b>Q</b>", "q", True),
        ("substring-before(x/b, '-') = y", "<b>p</b><b>q-r</b>", "q", True),
        # contains() and starts-with() take the first node
        ("contains(x, 'b')", "abc", "", True),
        ("contains(x, y)", "abc", "bc", True),
        ("starts-with(x, y)", "abc", "bc", False),
        ("starts-with(x, 'ab')", "abc", "", True),
        ("contains(x/b, 'q')", "<b>p</b><b>q</b>", "", False),
        ("contains(x/b, 'p')", "<b>p</b><b>q</b>", "", True),
        ("contains(x/b, '')", "", "", True),
        ("starts-with(x/b, 'p')", "", "", False),
        ("contains(lower-case(x), lower-case(y))", "ABC", "Bc", True),
        ("contains(number(x), '3')", "3.0", "", True),
        ("starts-with(x, number(y))", "3", "three", True),
        # formulas
        ("x = y AND contains(x, 'a')", "b", "b", False),
        ("x = y OR contains(x, 'a')", "b", "b", True),
        ("NOT (x = y OR contains(x, 'a'))", "b", "c", True),
        ("'a' = 'a' AND 1 < 2", "", "", True),
    ],
)
def test_worked_cases(predicate: str, x: str, y: str, expected: bool) -> None:
    assert holds(predicate, x, y) is expected


X, Y = VariablePath("x"), VariablePath("y")


def url(operand: Operand) -> Call:
    return Call("canonical-url", (operand,))


def year(operand: Operand) -> Call:
    return Call("year-from-date", (operand,))


@pytest.mark.parametrize(
    ("predicate", "x", "y", "expected"),
    [
        (Comparison("=", year(X), Y), "Tue, 19 Mar 2013 10:00:00 GMT", "2013.0", True),
        (Comparison(">", year(X), year(Y)), "2013-01-01", "2012-12-31T23:00:00Z", True),
        (Comparison("=", year(X), year(Y)), "soon", "soon", False),
        (Comparison("!=", year(X), year(Y)), "soon", "soon", True),
        (Comparison("=", url(X), url(Y)), "HTTP://A.example", "http://a.example/#b", True),
        (Comparison("=", url(X), url(Y)), "a", "a", False),
        (Comparison("<=", url(X), Y), "a", "a", False),
        (Comparison("!=", url(X), url(Y)), "a", "a", True),
        (Comparison("!=", Y, url(X)), "a", "a", True),
        (Comparison("=", Call("string-length", (url(X),)), Constant(0.0)), "a", "", False),
        (Call("contains", (url(X), Constant("a"))), "a", "", False),
        (Call("starts-with", (url(X), Constant("http:"))), "HTTP://a.example", "", True),
        # a number of the tree may be written as an int
        (Comparison("=", X, Constant(3)), "3.0", "", True),
        (Comparison("=", Call("lower-case", (Constant(3),)), X), "3", "", True),
    ],
)
def test_functions_without_a_value(predicate: Predicate, x: str, y: str, expected: bool) -> None:
    assert compiled(predicate)({"x": element(x), "y": element(y)}) is expected


def test_a_variable_may_be_an_attribute_or_a_text() -> None:
    owner = etree.fromstring("<a b='3.0'/>")
    row: Row = {"x": AttributeNode(owner, "b", "3.0"), "y": "3"}
    assert compiled(parsed("x = 3 AND number(x) = y AND y = '3'"))(row)
    assert not compiled(parsed("x/b = y"))(row)


def test_a_decorated_operand_is_looked_up_under_its_text() -> None:
    row: Row = {"$1.p": element("3"), "$2.p": element("4"), "$.n": "12"}
    assert compiled(parsed("$1.p < $2.p AND $.n = $1.p * $2.p"))(row)
    assert not compiled(parsed("$1.p > $2.p"))(row)


def test_a_variable_bound_to_nothing_compares_with_nothing() -> None:
    row: Row = {"x": None, "y": element("1")}
    for operator in ("=", "!=", "<", ">="):
        assert not compiled(parsed(f"x {operator} y"))(row)
        assert not compiled(parsed(f"number(x) {operator} 1"))(row)
    assert compiled(parsed("NOT x = y AND NOT contains(x, 'a')"))(row)


def test_a_variable_that_no_one_knows_is_an_error() -> None:
    with pytest.raises(KeyError):
        compiled(parsed("x = z"))({"x": "1", "y": "1"})


# -- Equal to a naive evaluation -------------------------------------------------------------

ROOT = etree.Element("root")
NAN = math.nan
Found: TypeAlias = "str | float"


def naive(predicate: Predicate, row: Row) -> bool:
    """Return the truth value: every choice of nodes is evaluated by libxml2, NaN is no value."""
    match predicate:
        case And(parts):
            return all(naive(part, row) for part in parts)
        case Or(parts):
            return any(naive(part, row) for part in parts)
        case Not(part):
            return not naive(part, row)
        case Comparison(operator, left, right):
            numeric = is_number(left) or is_number(right)
            ordered = operator not in ("=", "!=")
            untyped = ordered and isinstance(left, VariablePath) and isinstance(right, VariablePath)
            compare = naive_order if untyped else partial(naive_comparison, numeric=numeric)
            return any(
                compare(operator, evaluate(left, list(one)), evaluate(right, list(other)))
                for one in choices(left, row)
                for other in choices(right, row)
            )
        case Call(function, (left, right)):
            texts = naive_first(left, row), naive_first(right, row)
            return bool(xpath(f"{function}($a, $b)", *texts))
        case _:
            raise AssertionError(predicate)


def naive_order(operator: str, left: Found, right: Found) -> bool:
    """Return the order of two values without a type, as numbers of XPath 3.1 or as texts."""
    texts = [str(left), str(right)]
    numbers = [number(text) for text in texts if is_xpath_number(text)]
    if len(numbers) == 2:
        return naive_comparison(operator, numbers[0], numbers[1], numeric=True)
    return not numbers and naive_comparison(operator, texts[0], texts[1], numeric=False)


def naive_comparison(operator: str, left: Found, right: Found, numeric: bool) -> bool:
    if numeric:
        return bool(xpath(f"number($a) {operator} number($b)", left, right))
    if isinstance(left, float) or isinstance(right, float):
        return operator == "!="
    before, same = list(map(ord, left)) < list(map(ord, right)), left == right
    truth = {"=": same, "!=": not same, "<": before, "<=": before or same}
    return truth[operator] if operator in truth else not truth[{">": "<=", ">=": "<"}[operator]]


def naive_first(operand: Operand, row: Row) -> str:
    value = next((evaluate(operand, list(one)) for one in choices(operand, row)), NAN)
    return as_text(value) or ""


def is_number(operand: Operand) -> bool:
    match operand:
        case Constant(value):
            return not isinstance(value, str)
        case Call(function):
            return function in ("number", "string-length")
        case _:
            return isinstance(operand, Arithmetic)


def leaves(operand: Operand) -> Iterator[VariablePath]:
    match operand:
        case VariablePath():
            yield operand
        case Call(_, arguments):
            for argument in arguments:
                yield from leaves(argument)
        case Arithmetic(_, left, right):
            yield from leaves(left)
            yield from leaves(right)
        case Constant() | Decorated():
            return


def choices(operand: Operand, row: Row) -> Iterator[tuple[str, ...]]:
    """Yield the string values of each choice of nodes, one for each path from left to right."""
    return product(*[selected(leaf.path, row[leaf.variable]) for leaf in leaves(operand)])


def selected(path: Path, item: Item | None) -> list[str]:
    if isinstance(item, AttributeNode | str) or item is None:
        plain = path == Path() and item is not None
        return [item.value if isinstance(item, AttributeNode) else str(item)] if plain else []
    found: Any = item.xpath(unparse(path))
    return [str(one.xpath("string()")) if hasattr(one, "xpath") else str(one) for one in found]


def evaluate(operand: Operand, choice: list[str]) -> Found:
    """Return the value for a choice, which is used up from its beginning."""
    match operand:
        case VariablePath():
            return choice.pop(0)
        case Constant(value):
            return value
        case Arithmetic(sign, left, right):
            return xpath(f"$a {sign} $b", evaluate(left, choice), evaluate(right, choice))
        case Call(function, arguments):
            texts = [as_text(evaluate(argument, choice)) for argument in arguments]
            known = [text for text in texts if text is not None]
            if len(known) < len(texts):
                return NAN
            if function in ("lower-case", "upper-case"):
                return known[0].lower() if function == "lower-case" else known[0].upper()
            return xpath(f"{function}({', '.join(('$a', '$b')[: len(known)])})", *known)
        case Decorated():
            raise AssertionError("not drawn")


def xpath(expression: str, *values: Found) -> Found:
    """Return the value of an expression of XPath 1.0 over $a and $b."""
    found: Any = ROOT.xpath(expression, **dict(zip("ab", values, strict=False)))  # type: ignore[arg-type]
    return found if isinstance(found, float | bool) else str(found)


def as_text(value: Found) -> str | None:
    """Return XPath's text of a value; the results of the cases are never so large or small."""
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return f"{Decimal(repr(value)).normalize():f}" if value else "0"


WORDS = st.sampled_from(
    (*("1", "1", "2", "2.0", "-3", "0", " 2 ", "10", "1E1", "9"), *("a", "A", "b", "ab", "a-1", ""))
)
CHILDREN = st.lists(st.tuples(st.sampled_from("bc"), WORDS), max_size=3)


@st.composite
def nodes(draw: st.DrawFn) -> Item | None:
    """Return an element with up to three children, or now and then something else."""
    kind = draw(st.integers(0, 11))
    text = draw(WORDS)
    if kind == 0:
        return draw(st.sampled_from((None, AttributeNode(ROOT, "d", text), text)))
    root = etree.Element("a", d=draw(WORDS))
    for name, inner in draw(CHILDREN):
        etree.SubElement(root, name, d=draw(WORDS)).text = inner or None
    if kind < 8 or not len(root):
        root.text = text or None  # a document has no empty text nodes
    return root


B, C = Step(NameTest("b")), Step(NameTest("c"))
D, ANY = Step(NameTest("d"), attribute=True), Step(NameTest(None, None), descendant=True)
VARIABLES = st.builds(
    VariablePath,
    st.sampled_from("xy"),
    st.sampled_from((Path(),) * 5 + (Path((B,)), Path((C,)), Path((ANY,)), Path((D,))))
    | st.sampled_from((Path((B, D)), Path((), "child"), Path((), "descendant"))),
)
STRINGS = WORDS.map(Constant)
OPERANDS: st.SearchStrategy[Operand] = st.recursive(
    VARIABLES | VARIABLES | STRINGS | st.sampled_from((0.0, 1.0, 2.0, -3.0)).map(Constant),
    lambda inner: st.one_of(
        st.builds(
            lambda name, argument: Call(name, (argument,)),
            st.sampled_from(
                ("string", "lower-case", "upper-case", "normalize-space", "number", "string-length")
            ),
            inner,
        ),
        st.builds(
            lambda name, argument, part: Call(name, (argument, Constant(part))),
            st.sampled_from(("substring-before", "substring-after")),
            inner,
            st.sampled_from(("-", "a", "1", "")),
        ),
        st.builds(Arithmetic, st.sampled_from(("+", "-", "*", "div", "mod")), inner, inner),
    ),
    max_leaves=3,
)
ATOMS: st.SearchStrategy[Predicate] = st.one_of(
    *[st.builds(Comparison, st.sampled_from(("=", "!=", "<", "<=", ">", ">=")), OPERANDS, OPERANDS)]
    * 3,
    st.builds(
        lambda name, text, part: Call(name, (text, part)),
        st.sampled_from(("contains", "starts-with")),
        OPERANDS,
        OPERANDS,
    ),
)
PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    ATOMS,
    lambda parts: st.one_of(
        st.tuples(parts, parts).map(And), st.tuples(parts, parts).map(Or), parts.map(Not)
    ),
    max_leaves=3,
)


@pytest.mark.hypothesis
def test_it_equals_a_naive_evaluation() -> None:
    seen: Counter[str] = Counter()

    @given(PREDICATES, nodes(), nodes())
    @examples(400, all_of_them=True)
    def check(predicate: Predicate, x: Item | None, y: Item | None) -> None:
        row = {"x": x, "y": y}
        expected = naive(predicate, row)
        assert compiled(predicate)(row) is expected
        seen[str(expected)] += 1
        seen.update({word for word in FEATURES if word in unparse(predicate)})

    check()
    assert min(seen["True"], seen["False"]) > sum((seen["True"], seen["False"])) / 3
    assert {word for word in FEATURES if seen[word] > 10} == set(FEATURES)


FEATURES = (
    *(" and ", " or ", "not(", " = ", " != ", " < ", " <= ", " > ", " >= ", " + ", " - ", " * "),
    *(
        " div ",
        " mod ",
        "string(",
        "lower-case",
        "upper-case",
        "normalize-space",
        "number(",
        "/b",
        "//*",
    ),
    *("string-length", "substring-before", "substring-after", "contains", "starts-with", "/text()"),
)
