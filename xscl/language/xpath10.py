"""Translation of XPath 3.1 to XPath 1.0 with extension functions, for libxml2.

A function of sequences is one extension function of its own (`Local.functions`), which is composed
of those of `xscl.language.xpath_sequences`.  A sequence that it returns is a node set of texts,
which lxml makes of a list.  Times and durations are numbers of microseconds.  What XPath 1.0 cannot
say so is left to elementpath (`NotLocal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from xscl.language.xpath import Token
from xscl.language.xpath_analysis import (
    NARROW,
    NUMBERS,
    WIDE,
    cast_of,
    is_constant,
    is_item,
    is_mapping,
    is_numeric,
    is_path,
    items,
    uses_position,
)
from xscl.language.xpath_sequences import (
    ITEMS_OF_ITEMS,
    VALUES_OF_ITEMS,
    OfArguments,
    compare,
    mapped,
    part,
    tokenized,
)

EXTENSIONS = "urn:xscl:functions"
"""The namespace of our functions in XPath 1.0; its prefix is `x`."""
COMPARE = "compare"
"""The function that orders texts: an operator and two operands."""
TIMES = ("dateTime", "date", "dayTimeDuration")
"""The types that are numbers in libxml2: the microseconds since 1970, or of a duration."""
_LONGEST = 20_000
"""Characters of a translation: a union behind a slash writes the path before it twice."""
_WHOLE = MappingProxyType({".": "self::node()", "..": "parent::node()"})
"""Steps as they are written before a condition, which XPath 1.0 refuses behind a short form."""
_DIFFERENCES: Mapping[tuple[str, str, str], str] = MappingProxyType(
    {
        ("dateTime", "-", "dateTime"): "dayTimeDuration",
        ("date", "-", "date"): "dayTimeDuration",
        ("dateTime", "+", "dayTimeDuration"): "dateTime",
        ("dateTime", "-", "dayTimeDuration"): "dateTime",
        ("dayTimeDuration", "+", "dayTimeDuration"): "dayTimeDuration",
        ("dayTimeDuration", "-", "dayTimeDuration"): "dayTimeDuration",
    }
)
_CORE = frozenset(
    (
        *("position", "last", "count", "name", "local-name", "namespace-uri", "string", "concat"),
        *("starts-with", "contains", "substring-before", "substring-after", "substring"),
        *("string-length", "normalize-space", "translate", "boolean", "not", "true", "false"),
        *("number", "sum", "floor", "ceiling", "round"),
    )
)
_OURS = frozenset(
    (
        *("lower-case", "upper-case", "replace", "abs", "year-from-date", "month-from-date"),
        *("day-from-date", "hours-from-dateTime", "plain-text", "canonical-url"),
        *("ends-with", "matches", "tokens", "jaccard"),
    )
)
_TESTS = frozenset(
    (
        *("boolean", "not", "true", "false", "contains", "starts-with", "ends-with", "matches"),
        "contains-token",
    )
)
_NEVER_NAN = frozenset(
    ("count", "string-length", "position", "last", "(integer)", "(decimal)"),
)


class NotLocal(Exception):
    """An expression that XPath 1.0 with our functions does not have."""


class Local:
    """An expression as XPath 1.0 with our functions, for libxml2; raises NotLocal."""

    def __init__(self, token: Token) -> None:
        self.namespaces = {"x": EXTENSIONS}
        self.functions: dict[str, OfArguments] = {}
        """The functions of sequences, by their names in the text."""
        self._node = ""  # the variable that stands for the node
        self.text = self._truth(token) if token.symbol == "if" else self._of(token)

    def _of(self, token: Any) -> str:
        text = self._translated(token)
        if len(text) > _LONGEST:
            raise NotLocal("a long translation")
        return text

    def _translated(self, token: Any) -> str:
        symbol, count = str(token.symbol), len(token)
        if symbol in ("(name)", "(integer)", "(decimal)"):
            return str(token.value)
        if symbol == "(string)":
            return _quoted(str(token.value))
        if (
            symbol in _CORE | _OURS | VALUES_OF_ITEMS.keys()
            and getattr(token, "label", "") != "name"
        ):
            return self._call(symbol, list(token))
        if symbol in (".", "..") or (symbol in ("*", "/") and not count):
            return symbol
        if symbol in ("/", "//"):
            left = self._of(token[0]) if count == 2 else ""
            steps = [f"{left}{symbol}{self._step(one)}" for one in _united(token[-1])]
            return steps[0] if len(steps) == 1 else f"({' | '.join(steps)})"
        match symbol, list(token):
            case "[", [left, inner] if left.symbol in _WHOLE:
                return f"{_WHOLE[left.symbol]}[{self._of(inner)}]"
            case "[", [left, inner] if is_path(left):
                return f"{self._of(left)}[{self._of(inner)}]"
            case "(", [inner]:
                return f"({self._of(inner)})"
            case "$", [name] if str(name.value) == self._node:
                return "."
            case (("some" | "every"), [variable, values, test]):
                return self._quantified(symbol, str(variable[0].value), values, test)
            case "@", [name]:
                return f"@{self._of(name)}"
            case (("text" | "node" | "comment" | "processing-instruction"), []):
                return f"{symbol}()"
            case "Q{", [uri, name]:
                return self._name(str(uri.value), name)
            case ":", [left, name] if left.symbol == "*":
                return f"*[local-name()={_quoted(str(name.value))}]"
            case (("|" | "union"), [left, right]) if is_path(left) and is_path(right):
                return f"{self._of(left)} | {self._of(right)}"
            case (("exists" | "empty"), [inner]):
                return f"{'boolean' if symbol == 'exists' else 'not'}({self._sequence(inner)})"
            case "||", [left, right]:
                return f"concat({self._text(left)}, {self._text(right)})"
            case "castable", _:
                number = self._number(token)
                return f"({number} = {number})"
            case ((":" | "cast"), _) if (cast := cast_of(token)) and cast[0] in NUMBERS:
                return self._number(token)
            case (("and" | "or"), [left, right]):
                return f"({self._truth(left)} {symbol} {self._truth(right)})"
            case (("=" | "!=" | "<" | "<=" | ">" | ">="), [left, right]):
                return self._comparison(symbol, left, right)
            case (("+" | "-" | "*" | "div" | "mod"), [left, right]):
                return f"({self._of(left)} {symbol} {self._of(right)})"
            case "-", [inner]:
                return f"(-{self._of(inner)})"
            case _, [inner] if symbol in WIDE | NARROW:
                return f"{symbol}::{self._of(inner)}"
            case _:
                raise NotLocal(symbol)

    def _step(self, token: Any) -> str:
        """Return a step behind a slash; XPath 1.0 has no other expressions there."""
        first = token
        while first.symbol == "[":
            first = first[0]
        if first.symbol == "(" or not is_path(first):
            raise NotLocal(first.symbol)
        return self._of(token)

    def _name(self, uri: str, name: Any) -> str:
        local = str(name.value) if name.symbol == "(name)" else "*"
        if not uri:
            return local if local != "*" else "*[namespace-uri()='']"
        known = {uri: prefix for prefix, uri in self.namespaces.items()}
        prefix = known.get(uri) or f"n{len(self.namespaces)}"
        self.namespaces[prefix] = uri
        return f"{prefix}:{local}"

    def _quantified(self, symbol: str, variable: str, values: Any, test: Any) -> str:
        """Return `some $x in values satisfies test` as a condition on the nodes of the values.

        The test must read nothing but its variable: in the condition the context is another.
        """
        if symbol == "some":
            return self._some(variable, values, test, lambda: self._truth(test))
        return f"not({self._some(variable, values, test, lambda: f'not({self._truth(test)})')})"

    def _some(self, variable: str, values: Any, read: Any, condition: Callable[[], str]) -> str:
        """Return that a condition, which reads an expression, holds at some node of a sequence."""
        names = {id(one[0]) for one in read.iter("$")}
        paths = (one for one in read.iter() if is_path(one) and one.symbol != "(")
        if self._node or uses_position(read) or any(id(one) not in names for one in paths):
            raise NotLocal(variable)
        nodes = self._sequence(values)
        self._node = variable
        inner = condition()
        self._node = ""
        return f"boolean(({nodes})[{inner}])"

    # -- Sequences -------------------------------------------------------------------------

    def _sequence(self, token: Any) -> str:
        """Return a sequence as a node set, in its order."""
        if is_path(token) or token.symbol == "$":
            return self._of(token)
        if items(token) is None:
            raise NotLocal(token.symbol)
        match str(token.symbol), list(token):
            case "(", [inner]:
                return f"({self._sequence(inner)})"
            case "[", [left, inner] if not _is_place(inner):
                return f"({self._sequence(left)})[{self._of(inner)}]"
            case _:
                arguments: list[str] = []
                return self._called(self._items(token, arguments), arguments)

    def _called(self, function: OfArguments, arguments: list[str]) -> str:
        """Return the call of a composed function."""
        name = f"sequence{len(self.functions)}"
        self.functions[name] = function
        return f"x:{name}({', '.join(arguments)})"

    def _items(self, token: Any, arguments: list[str]) -> OfArguments:
        """Return the function to the items of a sequence; append what libxml2 evaluates for it."""
        match str(token.symbol), list(token):
            case "(", [inner]:
                return self._items(inner, arguments)
            case "tokenize", [text, *constants]:
                given, at = [str(one.value) for one in constants], len(arguments)
                arguments.append(self._text(text))
                return lambda texts: tokenized(texts[at][0], *given)
            case name, [inner] if name in ITEMS_OF_ITEMS:
                return _after(ITEMS_OF_ITEMS[name], self._items(inner, arguments))
            case "subsequence", [inner, *places] if all(map(_is_place, places)):
                first, *length = (int(place.value) for place in places)
                chosen = part(first, length[0] if length else None)
                return _after(chosen, self._items(inner, arguments))
            case "[", [inner, place] if _is_place(place) and not is_path(token):
                return _after(part(int(place.value), 1), self._items(inner, arguments))
            case ",", parts:
                each = [self._items(one, arguments) for one in parts]
                return lambda texts: [text for one in each for text in one(texts)]
            case (("!" | "/"), [inner, value]) if not is_path(token):
                return self._mapping(inner, value, ".", arguments)
            case "for", [variable, inner, value]:
                return self._mapping(inner, value, f"${variable[0].value}", arguments)
            case symbol, _:
                if symbol != "[" and not is_path(token) and items(token) is not None:
                    raise NotLocal(symbol)
                at = len(arguments)
                arguments.append(self._operand(token))
                return lambda texts: texts[at]

    def _mapping(self, inner: Any, value: Any, name: str, arguments: list[str]) -> OfArguments:
        """Return the function to the items of a sequence passed through a function of the table."""
        if is_item(value, name):
            return self._items(inner, arguments)
        argument, *constants = value
        each = mapped(str(value.symbol), *(str(one.value) for one in constants))
        return _after(each, self._mapping(inner, argument, name, arguments))

    def _value(self, name: str, sequence: Any, *constants: Any) -> str:
        """Return a function from a sequence to one value."""
        if name in _CORE and is_path(sequence):
            return f"{name}({self._of(sequence)})"
        kind = items(sequence)
        of_numbers = name not in ("count", "string-join", "contains-token")
        constant = all(one.symbol == "(string)" for one in constants)
        if kind is None or (of_numbers and (kind == "strings" or constants)) or not constant:
            raise NotLocal(name)
        arguments: list[str] = []
        found, apply = self._items(sequence, arguments), VALUES_OF_ITEMS[name]
        given = [str(one.value) for one in constants]
        return self._called(lambda texts: apply(found(texts), *given), arguments)

    def _truth(self, token: Any) -> str:
        if token.symbol in ("+", "-", "*") and is_numeric(token):
            raise NotLocal("a number as a condition")
        match token.symbol, list(token):
            case "if", [test, then, otherwise] if not any(test.iter("if")):  # it is written twice
                holds, one, other = map(self._truth, (test, then, otherwise))
                return f"(({holds} and {one}) or (not({holds}) and {other}))"
            case "(", [inner] if inner.symbol == "if":
                return self._truth(inner)
            case _:
                return self._of(token)

    def _call(self, name: str, arguments: list[Any]) -> str:
        if name in VALUES_OF_ITEMS:
            return self._value(name, *arguments)
        if name in ("not", "boolean"):
            return f"{name}({', '.join(map(self._truth, arguments))})"
        if name == "substring" and not all(map(is_numeric, arguments[1:])):
            raise NotLocal(name)
        if name in _OURS:  # which take a text sooner than a list of nodes
            return f"x:{name}({', '.join(map(self._text, arguments))})"
        return f"{name}({', '.join(map(self._argument, arguments))})"

    def _argument(self, token: Any) -> str:
        """Return an argument of a function of one item: of a sequence the first one."""
        if items(token) is None or is_path(token):
            return self._of(token)
        return f"string({self._sequence(token)})"

    def _text(self, token: Any) -> str:
        inner = self._argument(token)
        return f"string({inner})" if is_path(token) or token.symbol == "$" else inner

    def _number(self, token: Any) -> str:
        """Return the number of a cast, of times in microseconds."""
        cast = cast_of(token)
        if cast is None or cast[0] not in TIMES + NUMBERS or token.occurrence:
            raise NotLocal(token.symbol)
        return f"x:{cast[0]}({self._text(cast[1])})"

    def _time(self, token: Any) -> tuple[str, str] | None:
        """Return the type and the number of a time or duration, or of a sum or difference."""
        cast = cast_of(token)
        if cast is not None and cast[0] in TIMES and token.symbol != "castable":
            return cast[0], self._number(token)
        match str(token.symbol), list(token):
            case "(", [inner]:
                return self._time(inner)
            case ((("+" | "-") as sign), [left, right]):
                one, other = self._time(left), self._time(right)
                found = one and other and _DIFFERENCES.get((one[0], sign, other[0]))
                return (found, f"({one[1]} {sign} {other[1]})") if one and other and found else None
            case _:
                return None

    def _comparison(self, sign: str, left: Any, right: Any) -> str:
        if sign in ("=", "!=") and (_is_list(left) or _is_list(right)):
            return self._alternatives(sign, left, right)
        times = [self._time(side) for side in (left, right)]
        if times[0] is not None and times[1] is not None:
            if times[0][0] != times[1][0]:
                raise NotLocal(sign)
            return _ordered(sign, times[0][1], times[1][1])
        if any(is_mapping(one) and items(one) is None for one in (left, right)):
            return self._mapped(sign, left, right)
        return self._compared(sign, left, right)

    def _compared(self, sign: str, left: Any, right: Any) -> str:
        """Return a comparison of texts or numbers, or of sequences of these."""
        numeric = [is_numeric(side) for side in (left, right)]
        kinds = [items(side) for side in (left, right)]
        if "numbers" in kinds and not any(numeric):
            raise NotLocal(sign)
        if "strings" in kinds and not any(numeric):
            arguments: list[str] = []
            one, other = (self._items(side, arguments) for side in (left, right))
            return self._called(lambda texts: compare(sign, one(texts), other(texts)), arguments)
        sides = self._operand(left), self._operand(right)
        if any(numeric):
            known = (not _may_be_none(side) for side in (left, right) if is_numeric(side))
            return f"({sides[0]} {sign} {sides[1]})" if all(known) else _ordered(sign, *sides)
        if sign in ("=", "!="):
            return f"({sides[0]} {sign} {sides[1]})"
        return f"x:{COMPARE}('{sign}', {sides[0]}, {sides[1]})"

    def _mapped(self, sign: str, left: Any, right: Any) -> str:
        """Return a comparison with a constant of a mapping, whose values XPath 1.0 can compute.

        It holds if the comparison of the value does at some node of the path.
        """
        mapping, constant = (left, right) if is_mapping(left) else (right, left)
        inner = _inner(mapping)
        *variable, path, value = inner
        if not is_constant(constant) or not is_path(path):
            raise NotLocal(inner.symbol)
        sides = (value, right) if mapping is left else (left, value)
        if variable:
            name = str(variable[0][0].value)
            return self._some(name, path, value, lambda: self._comparison(sign, *sides))
        if value.symbol == "!" or uses_position(value):
            raise NotLocal("!")
        return f"boolean(({self._of(path)})[{self._comparison(sign, *sides)}])"

    def _operand(self, token: Any) -> str:
        inner = _inner(token)
        if items(inner) is not None or inner.symbol == "$":
            return self._sequence(inner)
        known = is_numeric(inner) or inner.symbol in (
            *_CORE,
            *_OURS,
            "(string)",
            "||",
            "string-join",
        )
        if inner.symbol in _TESTS or not known:
            raise NotLocal(inner.symbol)
        return self._of(token)

    def _alternatives(self, sign: str, left: Any, right: Any) -> str:
        """Return a comparison with a sequence as one with each of its items."""
        if _is_list(left):
            left, right = right, left
        parts = list(_parts(right[0]))
        return f"({' or '.join(self._comparison(sign, left, part) for part in parts)})"


def _after(apply: Callable[[Any], Any], before: OfArguments) -> OfArguments:
    return lambda texts: apply(before(texts))


def _is_list(token: Any) -> bool:
    """Return True for several expressions in parentheses."""
    return token.symbol == "(" and len(token) == 1 and token[0].symbol == ","


def _is_place(token: Any) -> bool:
    return bool(token.symbol == "(integer)")


def _inner(token: Any) -> Any:
    """Return an expression without parentheses around it."""
    return _inner(token[0]) if token.symbol == "(" and len(token) == 1 else token


def _may_be_none(token: Any) -> bool:
    """Return True for a number that may be NaN."""
    return _inner(token).symbol not in _NEVER_NAN


def _ordered(sign: str, left: str, right: str) -> str:
    """Return a comparison of numbers; what is none is not different from any."""
    if sign == "!=":
        return f"({left} < {right} or {left} > {right})"
    return f"({left} {sign} {right})"


def _united(token: Any) -> list[Any]:
    """Return the operands of a union in parentheses; of anything else, itself."""
    if token.symbol == "(" and len(token) == 1 and token[0].symbol in ("|", "union", "("):
        return _united(token[0])
    if token.symbol in ("|", "union"):
        return [one for side in token for one in _united(side)]
    return [token]


def _parts(token: Any) -> Iterator[Any]:
    if token.symbol == ",":
        for one in token:
            yield from _parts(one)
    else:
        yield token


def _quoted(text: str) -> str:
    if '"' in text and "'" in text:
        raise NotLocal("both quotes")
    return f"'{text}'" if '"' in text else f'"{text}"'
