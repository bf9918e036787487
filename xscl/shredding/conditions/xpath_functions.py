"""The functions of XPath that residual conditions call (`xscl.language.xpath.ALLOWED`).

A signature has a letter for each argument; those behind `?` may be absent:

    t   the text of the first item, "" if there is none
    n   the number of the first item, None if there is none
    a   the typed value of the first item, None if there is none
    i   the first item, None if there is none
    s   the items
    v   the typed values of the items
    .   what another letter makes of the context item if the argument is absent, as in `?.t`

Of several items a function of one takes the first.  A function returns a value, or the items.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from elementpath.datatypes import DateTime10, DayTimeDuration, Duration

from cep_core.algebra import WHITE_SPACE, BoundedDecimal
from cep_core.algebra.function_bounds import spending
from xscl.language.functions import FUNCTIONS
from xscl.language.regex import expression, pieces
from xscl.language.xpath import ALLOWED, OURS
from xscl.shredding.conditions.xpath_nodes import Node, language, path_of, place_of
from xscl.shredding.conditions.xpath_values import (
    Failure,
    Items,
    Untyped,
    Work,
    arithmetic,
    cast,
    compare,
    double,
    is_number,
    key_of,
    kind_of,
    number,
    rounded,
    text_of,
)


class XPathFunction(NamedTuple):
    """A function: a letter for each argument (see above), the least number of them, its code."""

    letters: tuple[str, ...]
    least: int
    apply: Callable[..., Any]
    """Called with the work and the arguments."""


# -- Texts ---------------------------------------------------------------------------------


def _string_join(work: Work, values: Items, separator: str = "") -> str:
    texts = [*map(text_of, values)]
    work.made(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _substring(_: Work, text: str, start: Any, length: Any = math.inf) -> str:
    first = rounded(double(_one(start)), 0, even=False)
    end = first + rounded(double(_one(length)), 0, even=False)
    if math.isnan(first) or math.isnan(end):
        return ""
    low, high = max(first, 1.0), min(end, len(text) + 1.0)
    return text[int(low) - 1 : int(high) - 1] if low < high else ""


def _one(value: Any) -> Any:
    if value is None:
        raise Failure("an argument without a value")
    return value


def _normalized(work: Work, text: str, form: str = "NFC") -> str:
    name = form.strip().upper()
    if not name:
        return text
    if name not in ("NFC", "NFD", "NFKC", "NFKD"):
        raise Failure(f"the form {form[:40]!r} of Unicode")
    found = unicodedata.normalize(name, text)  # type: ignore[arg-type]  # one of the four
    work.made(len(found))
    return found


def _tokenize(work: Work, text: str, *constants: str) -> list[str]:
    if constants:
        with spending(work.functions):
            found = pieces(text, *constants)
    else:
        found = _words(text)
    work.spend(len(found))
    return list(found)


_XML_SPACE = str.maketrans("\t\r\n", "   ")


def _words(text: str) -> list[str]:
    """Return the parts of a text between white space of XML."""
    return [word for word in text.translate(_XML_SPACE).split(" ") if word]


def _contains_token(work: Work, values: Items, token: str) -> bool:
    wanted = token.strip(WHITE_SPACE)
    return bool(wanted) and any(wanted in _tokenize(work, text_of(value)) for value in values)


def _compare(_: Work, one: Any, other: Any) -> int | None:
    if one is None or other is None:
        return None
    left, right = text_of(one), text_of(other)
    return (left > right) - (left < right)


def _equal_texts(_: Work, one: Any, other: Any) -> bool | None:
    return None if one is None or other is None else text_of(one) == text_of(other)


def _from_codepoints(work: Work, values: Items) -> str:
    work.made(len(values))
    numbers = [int(number(value)) for value in values]
    for one in numbers:
        plain = one in (9, 10, 13) or 32 <= one < 0xD800 or 0xE000 <= one < 0xFFFE
        if not (plain or 0x10000 <= one <= 0x10FFFF):
            raise Failure(f"{one} is no character")
    return "".join(map(chr, numbers))


def _codepoints(work: Work, text: str) -> list[int]:
    work.spend(len(text))
    return [*map(ord, text)]


def _encoded(work: Work, text: str) -> str:
    found = quote(text, safe="~")
    work.made(len(found))
    return found


def _of_table(name: str) -> tuple[str, Callable[..., Any]]:
    """Return a function that XPath shares with predicates, within the work's budget."""
    function = FUNCTIONS[name]
    letters = f"{'t' * (len(function.arguments) - function.optional)}?{'t' * function.optional}"

    def called(work: Work, *texts: str) -> Any:
        work.spend(sum(map(len, texts)) // 20)
        with spending(work.functions):
            return function.apply(*texts)

    return letters, called


# -- Numbers -------------------------------------------------------------------------------


def _of_number(apply: Callable[[Any], Any]) -> Callable[[Work, Any], Any]:
    def applied(_: Work, value: Any) -> Any:
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return abs(value) if apply is abs and value is not None else value
        return type(value)(apply(value))

    return applied


def _signed(apply: Callable[[Any], int]) -> Callable[[Any], Any]:
    """Return `apply`, a function of a number, with results of 0 that have the number's sign."""

    def applied(value: Any) -> Any:
        found = apply(value)
        return math.copysign(0.0, value) if not found and isinstance(value, float) else found

    return applied


def _round(even: bool) -> Callable[..., Any]:
    def applied(_: Work, value: Any, places: Any = 0) -> Any:
        return None if value is None else rounded(value, int(_one(places)), even=even)

    return applied


def _of_double(apply: Callable[[float], float]) -> Callable[[Work, Any], Any]:
    """Return `apply`, a function of xs:double, with NaN where it is undefined, INF if too large."""

    def applied(_: Work, value: Any) -> Any:
        if value is None:
            return None
        try:
            return apply(float(value))
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return applied


def _logarithm(apply: Callable[[float], float]) -> Callable[[float], float]:
    return lambda value: -math.inf if value == 0 else apply(value)


def _arithmetic(sign: str) -> Callable[[Work, Any, Any], Any]:
    def applied(_: Work, one: Any, other: Any) -> Any:
        return None if one is None or other is None else arithmetic(sign, one, other)

    return applied


def _power(_: Work, base: Any, exponent: Any) -> Any:
    if base is None:
        return None
    base, exponent = float(base), float(_one(exponent))
    try:
        return math.pow(base, exponent)
    except OverflowError:
        odd = math.fmod(exponent, 2) in (1, -1)
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def _sum(_: Work, values: Items, *zero: Items) -> Any:
    if not values:
        return zero[0] if zero else 0
    return _added(values)


def _added(values: Items) -> Any:
    total, *rest = [number(value) if isinstance(value, str) else value for value in values]
    if not is_number(total) and not isinstance(total, Duration):
        raise Failure(f"a sum of {kind_of(total)}")
    for one in rest:
        total = arithmetic("+", total, one)
    return total


def _avg(_: Work, values: Items) -> Any:
    return arithmetic("div", _added(values), len(values)) if values else None


def _extreme(sign: str) -> Callable[[Work, Items], Any]:
    def applied(_: Work, values: Items) -> Any:
        if not values:
            return None
        values = [number(value) if isinstance(value, Untyped) else value for value in values]
        if any(isinstance(value, float) for value in values):
            values = [float(number(value)) for value in values]
        best = values[0]
        for one in values:
            if isinstance(one, float) and math.isnan(one):
                return one
            if compare(sign, one, best):
                best = one
        compare("<=", best, best)  # raises an error if the values have no order
        return best

    return applied


# -- Sequences -----------------------------------------------------------------------------


def _insert(work: Work, items: Items, place: Any, others: Items) -> Items:
    at = max(0, int(_one(place)) - 1)
    work.spend(len(items) + len(others))
    return [*items[:at], *others, *items[at:]]


def _remove(_: Work, items: Items, place: Any) -> Items:
    at = int(_one(place)) - 1
    return items if at < 0 else [*items[:at], *items[at + 1 :]]


def _subsequence(_: Work, items: Items, start: Any, length: Any = math.inf) -> Items:
    first = rounded(double(_one(start)), 0, even=False)
    end = first + rounded(double(_one(length)), 0, even=False)
    return [item for at, item in enumerate(items, 1) if first <= at < end]


def _distinct(_: Work, values: Items) -> Items:
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(key_of(value), value)
    return [*found.values()]


def _index_of(_: Work, values: Items, wanted: Any) -> Items:
    key = key_of(_one(wanted))
    return [at for at, value in enumerate(values, 1) if key_of(value) == key]


def _exactly(least: int, most: float) -> Callable[[Work, Items], Items]:
    def applied(_: Work, items: Items) -> Items:
        if not least <= len(items) <= most:
            raise Failure(f"{len(items)} items")
        return items

    return applied


def _deep_equal(work: Work, ones: Items, others: Items) -> bool:
    return len(ones) == len(others) and all(
        _equal(work, one, other) for one, other in zip(ones, others, strict=True)
    )


def _equal(work: Work, one: Any, other: Any) -> bool:
    """Return True if two items are equal: nodes by names, attributes and children.

    Comments do not count.
    """
    work.spend(1)
    if isinstance(one, Node) and isinstance(other, Node):
        if (one.kind, one.name) != (other.kind, other.name):
            return False
        if one.kind not in ("element", "document"):
            return work.text(one) == work.text(other)
        given = [{node.name: node.value for node in of.attributes} for of in (one, other)]
        return given[0] == given[1] and _deep_equal(
            work, _content(work, one), _content(work, other)
        )
    if isinstance(one, Node) or isinstance(other, Node):
        return False
    return bool(key_of(one) == key_of(other))


def _content(work: Work, node: Node) -> Items:
    return [child for child in work.tree.children(node) if child.kind in ("element", "text")]


# -- Nodes ---------------------------------------------------------------------------------


def _node(item: Any) -> Node:
    if not isinstance(item, Node):
        raise Failure(f"{kind_of(item)} is no node")
    return item


def _both(wanted: bool) -> Callable[[Work, Items, Items], Items]:
    def applied(work: Work, ones: Items, others: Items) -> Items:
        among = set(map(_node, others))
        return work.tree.in_order(node for node in map(_node, ones) if (node in among) is wanted)

    return applied


def _node_order(
    holds: Callable[[Work, Node, Node], bool],
) -> Callable[[Work, Items, Items], bool | None]:
    def applied(work: Work, ones: Items, others: Items) -> bool | None:
        if not ones or not others:
            return None
        if len(ones) > 1 or len(others) > 1:
            raise Failure("an operator of order compares single nodes")
        return holds(work, _node(ones[0]), _node(others[0]))

    return applied


def _is_before(work: Work, one: Node, other: Node) -> bool:
    assert work.tree.nodes, "the tree is numbered"
    return place_of(one) < place_of(other)


def _name(_: Work, item: Any) -> str:
    if item is None:
        return ""
    node = _node(item)
    uri, brace, local = node.name.rpartition("}")
    if not brace:
        return local
    if node.kind == "element":
        prefix = node.value.prefix
    else:
        assert node.parent is not None, "an attribute has an element"
        known = {"http://www.w3.org/XML/1998/namespace": "xml"}
        known.update({u: p for p, u in node.parent.value.nsmap.items() if p})
        prefix = known.get(uri[1:])
    return f"{prefix}:{local}" if prefix else local


def _lang(_: Work, wanted: str, item: Any) -> bool:
    found = (language(_node(_one(item))) or "").lower()
    wanted = wanted.lower()
    return bool(found) and (found == wanted or found.startswith(f"{wanted}-"))


def _has_children(work: Work, item: Any) -> bool:
    return item is not None and bool(work.tree.children(_node(item)))


def _innermost(work: Work, items: Items) -> Items:
    nodes = work.tree.in_order(map(_node, items))
    above = {id(node) for one in nodes for node in _above(work, one)}
    return [node for node in nodes if id(node) not in above]


def _outermost(work: Work, items: Items) -> Items:
    nodes = work.tree.in_order(map(_node, items))
    given = set(map(id, nodes))
    return [node for node in nodes if not any(id(one) in given for one in _above(work, node))]


def _above(work: Work, node: Node) -> Items:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    work.spend(len(found))
    return found


# -- Times ---------------------------------------------------------------------------------


def _component(name: str) -> Callable[[Work, Any], Any]:
    """Return the XPath function `name`, such as `year-from-date`: a part of a time or duration."""
    part, _, kind = name.partition("-from-")

    def applied(_: Work, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            # These functions, shared with predicates, also read dates as feeds write them.
            if name in FUNCTIONS:
                found = FUNCTIONS[name].call(value)
                return math.nan if found is None else found
            value = cast(kind, value)
        elif kind_of(value) != f"xs:{kind}" and not isinstance(value, Duration):
            raise Failure(f"{kind_of(value)} is no xs:{kind}")
        return _part_of(part, value)

    return applied


def _part_of(part: str, value: Any) -> Any:
    if isinstance(value, Duration):
        sign = -1 if value.months < 0 or value.seconds < 0 else 1
        months, seconds = abs(value.months), abs(value.seconds)
        whole = int(seconds)
        parts: dict[str, Any] = {
            "years": months // 12,
            "months": months % 12,
            "days": whole // 86400,
            "hours": whole // 3600 % 24,
            "minutes": whole // 60 % 60,
            "seconds": seconds % 60,
        }
        return sign * parts[part]
    if part == "timezone":
        zone = value.tzinfo
        return None if zone is None else DayTimeDuration(int(zone.offset.total_seconds()))
    if part == "seconds":
        return BoundedDecimal(value.second) + BoundedDecimal(value.microsecond) / 1_000_000
    return getattr(value, part if part in ("year", "month", "day") else part[:-1])


def _date_time(_: Work, day: Any, clock: Any) -> Any:
    if day is None or clock is None:
        return None
    day, clock = cast("date", day), cast("time", clock)
    zones = {str(one.tzinfo) for one in (day, clock) if one.tzinfo is not None}
    if len(zones) > 1:
        raise Failure("two time zones")
    zone = next(iter(zones), "")
    parts = (str(one).removesuffix(zone) for one in (day, clock))
    return DateTime10.fromstring(f"{'T'.join(parts)}{zone}")


# -- The table -----------------------------------------------------------------------------

_SHARED = (
    *OURS,
    *("upper-case", "lower-case", "substring-before", "substring-after", "translate", "replace"),
)
"""The functions that XPath shares with predicates; their arguments are texts."""

_TABLE: Mapping[str, tuple[str, Callable[..., Any]]] = {
    **{name: _of_table(name) for name in _SHARED},
    **{sign: ("aa", _arithmetic(sign)) for sign in ("+", "-", "*", "div", "idiv", "mod")},
    "unary +": ("n", lambda _, value: value),
    "unary -": ("n", lambda _, value: None if value is None else -value),
    "intersect": ("ss", _both(True)),
    "except": ("ss", _both(False)),
    "is": ("ss", _node_order(lambda work, one, other: one is other)),
    "<<": ("ss", _node_order(_is_before)),
    ">>": ("ss", _node_order(lambda work, one, other: _is_before(work, other, one))),
    "string": ("?.t", lambda _, text: text),
    "data": ("?.v", lambda _, values: values),
    "number": ("?.a", lambda _, value: math.nan if value is None else double(value)),
    "true": ("", lambda _: True),
    "false": ("", lambda _: False),
    "string-join": ("v?t", _string_join),
    "substring": ("tn?n", _substring),
    "string-length": ("?.t", lambda _, text: len(text)),
    "normalize-space": ("?.t", lambda _, text: " ".join(_words(text))),
    "normalize-unicode": ("t?t", _normalized),
    "contains": ("tt", lambda _, text, part: part in text),
    "starts-with": ("tt", lambda _, text, part: text.startswith(part)),
    "ends-with": ("tt", lambda _, text, part: text.endswith(part)),
    "matches": ("tt?t", lambda _, text, *constants: expression(*constants).within(text)),
    "tokenize": ("t?tt", _tokenize),
    "compare": ("aa", _compare),
    "codepoint-equal": ("aa", _equal_texts),
    "codepoints-to-string": ("v", _from_codepoints),
    "string-to-codepoints": ("t", _codepoints),
    "contains-token": ("vt", _contains_token),
    "encode-for-uri": ("t", _encoded),
    "abs": ("n", _of_number(abs)),
    "ceiling": ("n", _of_number(_signed(math.ceil))),
    "floor": ("n", _of_number(_signed(math.floor))),
    "round": ("n?n", _round(even=False)),
    "round-half-to-even": ("n?n", _round(even=True)),
    "pi": ("", lambda _: math.pi),
    "exp": ("n", _of_double(math.exp)),
    "exp10": ("n", _of_double(lambda value: math.pow(10, value))),
    "log": ("n", _of_double(_logarithm(math.log))),
    "log10": ("n", _of_double(_logarithm(math.log10))),
    "pow": ("nn", _power),
    **{
        name: ("n", _of_double(getattr(math, name)))
        for name in ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan")
    },
    "atan2": ("nn", lambda _, one, other: math.atan2(float(_one(one)), float(_one(other)))),
    "count": ("s", lambda _, items: len(items)),
    "sum": ("v?v", _sum),
    "avg": ("v", _avg),
    "max": ("v", _extreme(">")),
    "min": ("v", _extreme("<")),
    "exists": ("s", lambda _, items: bool(items)),
    "empty": ("s", lambda _, items: not items),
    "head": ("s", lambda _, items: items[:1]),
    "tail": ("s", lambda _, items: items[1:]),
    "insert-before": ("sns", _insert),
    "remove": ("sn", _remove),
    "reverse": ("s", lambda _, items: items[::-1]),
    "subsequence": ("sn?n", _subsequence),
    "unordered": ("s", lambda _, items: items),
    "distinct-values": ("v", _distinct),
    "index-of": ("va", _index_of),
    "deep-equal": ("ss", _deep_equal),
    "zero-or-one": ("s", _exactly(0, 1)),
    "one-or-more": ("s", _exactly(1, math.inf)),
    "exactly-one": ("s", _exactly(1, 1)),
    "name": ("?.i", _name),
    "local-name": ("?.i", lambda _, i: "" if i is None else _node(i).name.rpartition("}")[2]),
    "namespace-uri": (
        "?.i",
        lambda _, i: "" if i is None else _node(i).name.rpartition("}")[0][1:],
    ),
    "root": ("?.i", lambda work, i: None if i is None else _node(i) and work.tree.root),
    "lang": ("t?.i", _lang),
    "has-children": ("?.i", _has_children),
    "innermost": ("s", _innermost),
    "outermost": ("s", _outermost),
    "path": ("?.i", lambda work, i: None if i is None else path_of(_node(i), work.tree)),
    **{name: ("a", _component(name)) for name in ALLOWED if "-from-" in name},
    "dateTime": ("aa", _date_time),
}


def _made(given: str, apply: Callable[..., Any]) -> XPathFunction:
    least = given.index("?") if "?" in given else len(given)
    return XPathFunction(tuple(re.findall(r"\.?\w", given)), least, apply)


TABLE: Mapping[str, XPathFunction] = MappingProxyType(
    {name: _made(*given) for name, given in _TABLE.items()}
)
"""The functions by name; those of the context and of truth values are compiled apart."""
