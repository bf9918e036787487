"""The parser: text to syntax tree.

Lark reads the grammar (`xscl.lark`); `Queries` turns its tree into ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources

from lark import Lark, TextSlice, Token, Tree
from lark.exceptions import UnexpectedInput

from xscl.errors import NotSupported, QueryError, TooComplex
from xscl.language.constants import ShapeCache
from xscl.language.constructor import cut_constructors
from xscl.language.faults import SyntaxFault, fault, syntax_fault
from xscl.language.limits import admit
from xscl.language.prologue import broken_declaration
from xscl.language.queries import Queries
from xscl.language.scope import leaves, variables
from xscl.language.shortest import shortest
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
        try:
            return Queries(text, constructors).query(_read(text, without, "start").children[0])
        except (NotSupported, SyntaxFault) as refused:
            queries = Queries(text, constructors)
            tree = _in_xpath(queries, without, "start", refused)
            return queries.query(tree.children[0])
    except RecursionError:
        # Only where the caller is itself deep in the stack, or a quote hides nesting.
        message = "the query is too complex: nested too deep to be read here"
        raise TooComplex.at(0, message, text) from None


def _in_xpath(queries: Queries, text: str, start: str, refused: QueryError) -> Tree[Token]:
    """Return lark's tree of a text that the grammar refuses, steps and brackets of blocks hidden.

    `queries` is made to read what is hidden.  A `|` behind a block begins another one in a query,
    and a derived node in a definition.
    """
    from xscl.language.blocks import BlockReader, Unreadable, hidden  # loads elementpath

    if (broken := broken_declaration(queries.source)) is not None:
        raise broken from None
    try:
        shown = hidden(text, united=start == "start")
        tree = _read(queries.source, shown, start)
    except Unreadable:
        raise refused from None
    except SyntaxFault as error:
        further = (error.line, error.column) > (refused.line, refused.column)
        raise (error if further else refused) from None
    reader = BlockReader(queries, text, refused, _read)
    queries.block_in_xpath = reader.block
    return tree


def parse_block(text: str, *, short: bool = False) -> Block:
    """Return a block, as it is printed in the definition of a variable; perhaps a derived one.

    It is read once for all texts of its shape, which then share what no constant is in.  `short`
    asks for its conditions in their shortest form.
    """
    return (_SHORT_BLOCKS if short else _BLOCKS)(text)


def _block(text: str) -> Block:
    try:
        block, *derived = _read(text, text, "block_start").children
        read = Queries(text).block(block)
    except (NotSupported, SyntaxFault) as refused:
        queries = Queries(text)
        block, *derived = _in_xpath(queries, text, "block_start", refused).children
        read = queries.block(block)
    if derived:
        step = Step(NameTest(None, None), derived=Queries(text, here=True).operand(derived[0]))
        read = replace(read, steps=(*read.steps, step))
    return read


MOST_BLOCKS = 10_000
"""Shapes of blocks that are remembered."""
_BLOCKS = ShapeCache(_block, MOST_BLOCKS)
_SHORT_BLOCKS = ShapeCache(lambda text: shortest(_block(text)), MOST_BLOCKS)


def parse_operand(text: str) -> Operand:
    """Return an operand over one node, `.`, as it is printed in a definition."""
    read = _read(text, text, "formula_start")
    return Queries(text, here=True).operand(read.children[0])


def _embedded(declared: Mapping[str, str], source: str, span: Span) -> Embedded | Computed:
    """Return the expression in braces of a constructor: a variable, a path, string() of it."""
    builder = Queries(source, declared=declared)
    read = _read(source, source, "formula_start", span)
    operand = builder.operand(read.children[0])
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


@cache
def _lark() -> Lark:
    grammar = resources.files(__package__).joinpath("xscl.lark").read_text("utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start=["start", "block_start", "bracket_start", "path_start", "formula_start"],
        maybe_placeholders=False,
    )


def _read(source: str, text: str, start: str, span: Span | None = None) -> Tree[Token]:
    """Return lark's tree of a text, or of a span of it; places are places of the source."""
    end = len(text) if span is None else span.end
    sliced = TextSlice(text, 0 if span is None else span.start, end)
    try:
        return _lark().parse(sliced, start=start)
    except UnexpectedInput as error:
        offset = error.pos_in_stream
        quote = source[offset : offset + 1] if offset is not None else ""
        if offset is not None and quote in ("'", '"') and quote not in source[offset + 1 : end]:
            raise fault(
                source, Span(offset), "this string is not closed", "end it with the same quote"
            ) from None
        wrong = syntax_fault(source[:end], error)
        if end < len(source):
            wrong.message = wrong.message.replace("the query ends", f"found {source[end]!r}", 1)
        raise SyntaxFault(wrong.message, source, wrong.line, wrong.column, wrong.hint) from None
