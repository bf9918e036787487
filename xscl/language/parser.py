"""The parser: text to syntax tree.

Lark reads the grammar (`xscl.lark`); `Queries` turns its tree into ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from xscl.errors import TooComplex
from xscl.language.constants import ShapeCache
from xscl.language.constructor import cut_constructors
from xscl.language.faults import SyntaxFault, fault
from xscl.language.grammar import read
from xscl.language.limits import admit
from xscl.language.prologue import broken_declaration
from xscl.language.queries import Queries
from xscl.language.scope import leaves, shortest, variables
from xscl.language.syntax import (
    Block,
    Call,
    Computed,
    Decorated,
    Embedded,
    NameTest,
    Operand,
    Query,
    Span,
    Step,
    VariablePath,
)

MAX_LATENESS = 1 << 61
_DURATION = re.compile(r"\s*(-?[0-9.]+)\s*([a-z]*)\s*|\s*INF\s*", re.IGNORECASE)


def parse(text: str) -> Query:
    """Return the syntax tree of a query; raises QueryError with the place."""
    admit(text)
    try:
        without, constructors = cut_constructors(text, _embedded) if "<" in text else (text, [])
        tree = read(text, "start", shown=without)
        return Queries(text, constructors).query(tree.children[0])
    except SyntaxFault as refused:
        raise broken_declaration(text) or refused from None
    except RecursionError:
        # Only where the caller is itself deep in the stack, or a quote hides nesting.
        message = "the query is too complex: nested too deep to be read here"
        raise TooComplex.at(0, message, text) from None


def parse_block(text: str, *, short: bool = False) -> Block:
    """Return a block, as it is printed in the definition of a variable; perhaps a derived one.

    It is read once for all texts of its shape, which then share what no constant is in.  `short`
    asks for its conditions in their shortest form.
    """
    return (_SHORT_BLOCKS if short else _BLOCKS)(text)


def _block(text: str) -> Block:
    block, *derived = read(text, "block_start").children
    made = Queries(text).block(block)
    if derived:
        step = Step(NameTest(None, None), derived=Queries(text, here=True).operand(derived[0]))
        made = replace(made, steps=(*made.steps, step))
    return made


MOST_BLOCKS = 10_000
"""Shapes of blocks that are remembered."""
_BLOCKS = ShapeCache(_block, MOST_BLOCKS)
_SHORT_BLOCKS = ShapeCache(lambda text: shortest(_block(text)), MOST_BLOCKS)


def parse_operand(text: str) -> Operand:
    """Return an operand over one node, `.`, as it is printed in a definition."""
    return Queries(text, here=True).operand(read(text, "formula_start").children[0])


def _embedded(declared: Mapping[str, str], source: str, span: Span) -> Embedded | Computed:
    """Return the expression in braces of a constructor: a variable, a path, string() of it."""
    builder = Queries(source, declared=declared)
    operand = builder.operand(read(source, "formula_start", span).children[0])
    match operand:
        case VariablePath(variable, path):
            return Embedded(variable, path, False, operand.span)
        case Call("string", (VariablePath(variable, path),)):
            return Embedded(variable, path, True, operand.span)
        case _ if any(True for _ in variables(operand)) and not _decorated(operand):
            return Computed(operand, operand.span)
        case _:
            raise fault(
                source,
                span,
                "only what reads a variable can stand in braces",
                "for example {x3}, {x1/title}, {string(x3)} or {lower-case(x3)}",
            )


def _decorated(operand: Operand) -> bool:
    return any(isinstance(leaf, Decorated) for leaf in leaves(operand))


def parse_window(text: str) -> int:
    """Return a duration such as `10 min` in ticks; it must be finite and not negative."""
    match = _DURATION.fullmatch(text)
    if match is None or match[1] is None:
        raise fault(text, Span(), "this is not a duration", "for example 10 min, or 1.5 h")
    window = Queries(text).window_of(
        match[1], match[2] or None, Span(), unit_span=Span(match.start(2))
    )
    assert window.ticks is not None
    if window.ticks > MAX_LATENESS:
        raise fault(text, Span(), "this duration is too long")
    return window.ticks
