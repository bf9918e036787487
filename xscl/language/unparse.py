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

from xscl.language.names import PREFIXES
from xscl.language.syntax import (
    And,
    Arithmetic,
    Block,
    Call,
    Compare,
    Comparison,
    Computed,
    Condition,
    Constant,
    ConstructorPart,
    Decorated,
    Element,
    Exists,
    Fold,
    Join,
    NameTest,
    Next,
    Not,
    Operand,
    Or,
    Path,
    Predicate,
    Query,
    Residual,
    Step,
    StreamExpression,
    TextMatch,
    Through,
    VariablePath,
    Window,
)
from xscl.time_format import UNITS

MEMBER = ". intersect ("
"""The text before a path that selects a node, in a condition that the node is among them."""

Printable: TypeAlias = (
    "StreamExpression | Path | Condition | Predicate | Operand | Window | Element"
)


def unparse(node: Printable) -> str:
    """Return the text of a query or of a part of one; a path is printed relative."""
    match node:
        case Query():
            return _query(node)
        case Block(stream, (step,)) if node.is_calendar:
            return stream if step.variable is None else f"{stream}->{step.variable}"
        case Block(stream, steps):
            derived = steps[-1].derived if steps else None
            tail = "" if derived is None else f" | {unparse(derived)}"
            return stream + "".join(map(_step, steps)) + tail
        case Join() | Next() | Fold():
            return _operation(node)
        case Window():
            return _window(node)
        case Path():
            return _path(node)
        case Element():
            return _element(node, {})
        case Exists(path):
            return _path(path)
        case Compare(path, operator, value, through):
            return f"{_through(path, through)} {operator} {literal(value)}"
        case TextMatch(function, path, value, through, flags):
            last = f", {literal(flags)}" if flags else ""
            return f"{function}({_through(path, through)}, {literal(value)}{last})"
        case Residual(text, selects):
            return f"{MEMBER}{text})" if selects else text
        case And(parts):
            return " and ".join(map(_grouped, parts))
        case Or(parts):
            return " or ".join(map(_grouped, parts))
        case Not(part):
            return f"not({unparse(part)})"
        case Comparison(operator, left, right):
            return f"{unparse(left)} {operator} {unparse(right)}"
        case VariablePath(variable, path):
            return (variable or ".") + _rest(path)
        case Decorated(number, name):
            return f"${number or ''}.{name}"
        case Constant(value):
            return literal(value)
        case Call(function, arguments):
            return f"{function}({', '.join(map(unparse, arguments))})"
        case Arithmetic(operator, left, right):
            return f"({unparse(left)} {operator} {unparse(right)})"
        case _:
            assert_never(node)


# -- Queries and stream expressions --------------------------------------------------------


def _query(query: Query, *, within: bool = False) -> str:
    """Return a query; within another it always has a clause that makes it one."""
    select = ""
    if query.select is not None or query.distinct or (within and query.publish is None):
        distinct = "DISTINCT " if query.distinct else ""
        made = "*" if query.select is None else _element(query.select, {})
        select = f"SELECT {distinct}{made} FROM "
    publish = "" if query.publish is None else f" PUBLISH {query.publish}"
    return f"{select}{_inner(query.expression)}{publish}"


def _inner(expression: StreamExpression) -> str:
    if isinstance(expression, Query):
        return f"({_query(expression, within=True)})"
    return unparse(expression)


def _operation(expression: Join | Next | Fold) -> str:
    left, right = _inner(expression.left), _inner(expression.right)
    if isinstance(expression.left, Join) and _otherwise(expression.left):
        left = f"({left})"
    if not isinstance(expression.right, Block | Query):
        right = f"({right})"
    match expression:
        case Join(predicate=predicate, window=window):
            constraint = _constraint(predicate, window)
            return f"{left} {expression.name}{constraint} {right}{_otherwise(expression)}"
        case Next(predicate=predicate):
            return f"{left} NEXT{_braces(_predicates(predicate))} {right}"
        case Fold(predicate=predicate, again=again, aggregates=aggregates):
            named = [f"{unparse(value)} AS {name}" for name, value in aggregates]
            items = _braces([*_predicates(predicate, again), *named])
            return f"{left} {'LONGEST ' if expression.longest else ''}FOLD{items} {right}"


def _otherwise(join: Join) -> str:
    """Return the ELSE of a join; empty without one."""
    if join.negated or not any(join.alone):
        return ""
    if join.operator.follows or all(join.alone):
        return " ELSE"
    return " ELSE LEFT" if join.alone[0] else " ELSE RIGHT"


def _predicates(*predicates: Predicate | None) -> list[str]:
    return [unparse(predicate) for predicate in predicates if predicate is not None]


def _constraint(predicate: Predicate | None, window: Window) -> str:
    if window == Window():
        return _braces(_predicates(predicate))
    return f"{{{''.join(_predicates(predicate))}, {_window(window)}}}"


def _braces(parts: list[str]) -> str:
    return f"{{{', '.join(parts)}}}" if parts else ""


def _window(window: Window) -> str:
    """Return a window with its bounds."""
    lower = window.lower
    least = "" if lower is None else f"{_length(lower.ticks, lower.unit)} TO "
    return least + _length(window.ticks, window.unit)


def _length(ticks: int | None, unit: str | None) -> str:
    """Return a bound in its unit; in ticks where that has no end in decimal digits."""
    if ticks is None:
        return "INF"
    if unit is None:
        return str(ticks)
    exact = Fraction(ticks, UNITS[unit])
    amount = Decimal(exact.numerator) / Decimal(exact.denominator)
    return f"{amount:f} {unit}" if Fraction(amount) == exact else str(ticks)


# -- Paths and conditions ------------------------------------------------------------------


def _grouped(part: Condition | Predicate) -> str:
    text = unparse(part)
    return f"({text})" if isinstance(part, And | Or | Residual) else text


def _path(path: Path) -> str:
    return f".{_rest(path)}"


def _through(path: Path, through: Through | None) -> str:
    """Return the tested value of a path."""
    match through:
        case None:
            return _path(path)
        case Through("count"):
            return f"count({_path(path)})"
        case Through("each", operand):
            return f"{_path(path)}/{unparse(operand)}"
        case Through(_, operand):
            return unparse(_at(path, operand))


def _at(path: Path, operand: Operand) -> Operand:
    """Return an operand over `.` at the end of a path."""
    match operand:
        case VariablePath("", Path((), None)):
            return VariablePath("", path)
        case Call(function, arguments):
            return Call(function, tuple(_at(path, argument) for argument in arguments))
        case _:
            return operand


def _rest(path: Path) -> str:
    """Return the steps of a path, to stand behind a dot or a variable."""
    tail = {None: "", "child": "/text()", "descendant": "//text()"}[path.text]
    return "".join(map(_step, path.steps)) + tail


def _step(step: Step) -> str:
    if step.derived is not None:
        return ""
    slash = "//" if step.descendant else "/"
    at = "@" if step.attribute else ""
    bound = "" if step.variable is None else f"->{step.variable}"
    conditions = "".join(f"[{unparse(condition)}]" for condition in step.conditions)
    return f"{slash}{at}{_name(step.test)}{bound}{conditions}"


def _name(test: NameTest) -> str:
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
        return str(int(number))  # as it prints in results; `repr` has the shortest digits
    text = f"{Decimal(repr(number)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# -- Constructors --------------------------------------------------------------------------

_TEXT = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "{": "{{", "}": "}}", '"': "&quot;"}
    | {control: f"&#{ord(control)};" for control in "\t\n\r"}
)


def _element(element: Element, outer: Mapping[str, str], default: str = "") -> str:
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
        _element(child, prefixes, default) if isinstance(child, Element) else _part(child)
        for child in element.children
    )
    return f"{start}>{children}</{name}>" if children else f"{start}/>"


def _part(part: ConstructorPart) -> str:
    if isinstance(part, str):
        return part.translate(_TEXT)
    if isinstance(part, Computed):
        return f"{{{unparse(part.operand)}}}"
    inner = part.variable + _rest(part.path)
    return f"{{string({inner})}}" if part.as_string else f"{{{inner}}}"


def _attribute(name: str, prefixes: Mapping[str, str]) -> str:
    """Return the name of an attribute, in Clark notation, as it is written."""
    if not name.startswith("{"):
        return name
    uri, _, local = name[1:].rpartition("}")
    return f"{prefixes.get(uri) or PREFIXES[uri]}:{local}"
