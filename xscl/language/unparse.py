"""Printing: the text of a syntax tree.  `parse(unparse(q)) == q`.

The printed form of a block identifies a variable, so it is a function of the
tree alone: one bracket for each condition, `Q{uri}name` where no predeclared
prefix stands for the namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias, assert_never

from xscl.language import syntax
from xscl.language.names import PREFIXES
from xscl.time_format import UNITS

MEMBER = ". intersect ("
"""The text before the path of a `Residual` that `selects`; a parenthesis closes it."""

Printable: TypeAlias = (
    "syntax.StreamExpression | syntax.Path | syntax.Condition | syntax.Predicate | syntax.Operand"
    " | syntax.Window | syntax.Element | syntax.Step"
)


def unparse(node: Printable) -> str:
    """Return the text of a query or of a part of one; a path is printed relative."""
    match node:
        case syntax.Query():
            return _query(node)
        case syntax.Block(stream, (step,)) if node.is_calendar:
            return stream if step.variable is None else f"{stream}->{step.variable}"
        case syntax.Block(stream, steps):
            return stream + "".join(map(unparse, steps))
        case syntax.Step(derived=derived):
            return _step(node) if derived is None else f" | {unparse(derived)}"
        case syntax.Join() | syntax.Next() | syntax.Fold():
            return _operation(node)
        case syntax.Window():
            lower = "" if node.lower is None else f"{unparse(node.lower)} TO "
            return lower + _length(node.ticks, node.unit)
        case syntax.Path():
            return _path(node)
        case syntax.Element():
            return _element(node, {})
        case syntax.Exists(path):
            return _path(path)
        case syntax.ValueTest(path, operator, value, through, flags):
            tested, constant = _through(path, through), literal(value)
            if node.is_comparison:
                return f"{tested} {operator} {constant}"
            constants = f"{constant}, {literal(flags)}" if flags else constant
            return f"{operator}({tested}, {constants})"
        case syntax.Residual(text, selects):
            return f"{MEMBER}{text})" if selects else text
        case syntax.And(parts):
            return " and ".join(map(_grouped, parts))
        case syntax.Or(parts):
            return " or ".join(map(_grouped, parts))
        case syntax.Not(part):
            return f"not({unparse(part)})"
        case syntax.Comparison(operator, left, right):
            return f"{unparse(left)} {operator} {unparse(right)}"
        case syntax.VariablePath(variable, path):
            return (variable or ".") + _rest(path)
        case syntax.DecoratedName(number, name):
            return f"${number or ''}.{name}"
        case syntax.Constant(value):
            return literal(value)
        case syntax.Call(function, arguments):
            return f"{function}({', '.join(map(unparse, arguments))})"
        case syntax.Arithmetic(operator, left, right):
            return f"({unparse(left)} {operator} {unparse(right)})"
        case _:
            assert_never(node)


# -- Queries and stream expressions --------------------------------------------------------


def _query(query: syntax.Query, *, within: bool = False) -> str:
    """Return the text of a query; a sub-query (`within`) always has SELECT or PUBLISH."""
    select = ""
    if query.select is not None or query.distinct or (within and query.publish is None):
        distinct = "DISTINCT " if query.distinct else ""
        made = "*" if query.select is None else _element(query.select, {})
        select = f"SELECT {distinct}{made} FROM "
    publish = "" if query.publish is None else f" PUBLISH {query.publish}"
    return f"{select}{_inner(query.expression)}{publish}"


def _inner(expression: syntax.StreamExpression) -> str:
    if isinstance(expression, syntax.Query):
        return f"({_query(expression, within=True)})"
    return unparse(expression)


def _operation(expression: syntax.Join | syntax.Next | syntax.Fold) -> str:
    left, right = _inner(expression.left), _inner(expression.right)
    if isinstance(expression.left, syntax.Join) and _otherwise(expression.left):
        left = f"({left})"
    if not isinstance(expression.right, syntax.Block | syntax.Query):
        right = f"({right})"
    match expression:
        case syntax.Join(predicate=predicate, window=window):
            constraint = _constraint(predicate, window)
            return f"{left} {expression.name}{constraint} {right}{_otherwise(expression)}"
        case syntax.Next(predicate=predicate):
            return f"{left} NEXT{_braces(_predicates(predicate))} {right}"
        case syntax.Fold(predicate=predicate, again=again, aggregates=aggregates):
            named = [f"{unparse(value)} AS {name}" for name, value in aggregates]
            items = _braces([*_predicates(predicate, again), *named])
            return f"{left} {'LONGEST ' if expression.longest else ''}FOLD{items} {right}"


def _otherwise(join: syntax.Join) -> str:
    """Return the ELSE of a join; empty without one."""
    if join.negated or not any(join.alone):
        return ""
    if join.operator.follows or all(join.alone):
        return " ELSE"
    return " ELSE LEFT" if join.alone[0] else " ELSE RIGHT"


def _predicates(*predicates: syntax.Predicate | None) -> list[str]:
    return [unparse(predicate) for predicate in predicates if predicate is not None]


def _constraint(predicate: syntax.Predicate | None, window: syntax.Window) -> str:
    if window == syntax.Window():
        return _braces(_predicates(predicate))
    return f"{{{''.join(_predicates(predicate))}, {unparse(window)}}}"


def _braces(parts: list[str]) -> str:
    return f"{{{', '.join(parts)}}}" if parts else ""


def _length(ticks: int | None, unit: str | None) -> str:
    """Return a bound in its unit; in ticks if it has no finite decimal form in the unit."""
    if ticks is None:
        return "INF"
    if unit is None:
        return str(ticks)
    exact = Fraction(ticks, UNITS[unit])
    amount = Decimal(exact.numerator) / Decimal(exact.denominator)
    return f"{amount:f} {unit}" if Fraction(amount) == exact else str(ticks)


# -- Paths and conditions ------------------------------------------------------------------


def _grouped(part: syntax.Condition | syntax.Predicate) -> str:
    text = unparse(part)
    return f"({text})" if isinstance(part, syntax.And | syntax.Or | syntax.Residual) else text


def _path(path: syntax.Path) -> str:
    return f".{_rest(path)}"


def _through(path: syntax.Path, through: syntax.Through | None) -> str:
    """Return the text of the values that a condition tests: a path, or a function of it."""
    match through:
        case None:
            return _path(path)
        case syntax.Through("count"):
            return f"count({_path(path)})"
        case syntax.Through("each", operand):
            return f"{_path(path)}/{unparse(operand)}"
        case syntax.Through(_, operand):
            return unparse(_at(path, operand))


def _at(path: syntax.Path, operand: syntax.Operand) -> syntax.Operand:
    """Return an operand over `.` with a path in place of `.`."""
    match operand:
        case syntax.VariablePath("", syntax.Path((), None)):
            return syntax.VariablePath("", path)
        case syntax.Call(function, arguments):
            return syntax.Call(function, tuple(_at(path, argument) for argument in arguments))
        case _:
            return operand


def _rest(path: syntax.Path) -> str:
    """Return the steps of a path, to stand behind a dot or a variable."""
    tail = {None: "", "child": "/text()", "descendant": "//text()"}[path.text]
    return "".join(map(_step, path.steps)) + tail


def _step(step: syntax.Step) -> str:
    if step.derived is not None:
        return ""
    slash = "//" if step.descendant else "/"
    at = "@" if step.attribute else ""
    bound = "" if step.variable is None else f"->{step.variable}"
    conditions = "".join(f"[{unparse(condition)}]" for condition in step.conditions)
    return f"{slash}{at}{_name(step.test)}{bound}{conditions}"


def _name(test: syntax.NameTest) -> str:
    local = test.local or "*"
    match test.uri:
        case None:
            return "*" if test.local is None else f"*:{local}"
        case "":
            return local if test.local is not None else "Q{}*"
        case uri if uri in PREFIXES:
            return f"{PREFIXES[uri]}:{local}"
        case uri:
            return f"Q{{{uri}}}{local}"


# -- Operands ------------------------------------------------------------------------------


def literal(value: str | float) -> str:
    """Return a constant; XPath has no exponents, so a number is printed without."""
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    number = float(value)
    if number.is_integer() and abs(number) >= 2**53:
        return str(int(number))  # all its digits, as in results; `repr` has only the shortest ones
    text = f"{Decimal(repr(number)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# -- Constructors --------------------------------------------------------------------------

_TEXT = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "{": "{{", "}": "}}", '"': "&quot;"}
    | {control: f"&#{ord(control)};" for control in "\t\n\r"}
)


def _element(element: syntax.Element, outer: Mapping[str, str], default: str = "") -> str:
    """Return a constructor.

    `outer` has the prefixes of the elements around it, by namespace, and
    `default` is their default namespace: that of a name without a prefix.
    """
    prefixes = {**outer, **{uri: prefix for prefix, uri in element.prefixes}}
    uri, _, local = element.name[1:].rpartition("}") if element.name[0] == "{" else ("", "", "")
    prefix = prefixes.get(uri)
    name = element.name if not uri else f"{prefix}:{local}" if prefix else local
    declared = [(f"xmlns:{prefix}", uri) for prefix, uri in element.prefixes]
    if prefix is None and uri != default:
        declared.append(("xmlns", uri))
        default = uri
    written = [
        *(f'{key}="{value.translate(_TEXT)}"' for key, value in declared),
        *(
            f'{_attribute(key, prefixes)}="{"".join(map(_part, parts))}"'
            for key, parts in element.attributes
        ),
    ]
    start = " ".join([f"<{name}", *written])
    children = "".join(
        _element(child, prefixes, default) if isinstance(child, syntax.Element) else _part(child)
        for child in element.children
    )
    return f"{start}>{children}</{name}>" if children else f"{start}/>"


def _part(part: syntax.ConstructorPart) -> str:
    if isinstance(part, str):
        return part.translate(_TEXT)
    if isinstance(part, syntax.EmbeddedOperand):
        return f"{{{unparse(part.operand)}}}"
    inner = part.variable + _rest(part.path)
    return f"{{string({inner})}}" if part.as_string else f"{{{inner}}}"


def _attribute(name: str, prefixes: Mapping[str, str]) -> str:
    """Return the name of an attribute with a prefix in place of the namespace."""
    if not name.startswith("{"):
        return name
    uri, _, local = name[1:].rpartition("}")
    return f"{prefixes.get(uri) or PREFIXES[uri]}:{local}"
