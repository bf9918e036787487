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
from xscl.language.faults import fault, syntax_fault
from xscl.language.limits import admit
from xscl.language.paths import Paths
from xscl.language.prologue import broken_declaration, declarations
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


class _SyntaxFault(QueryError):
    """A text that the grammar refuses, and that may be XPath."""


def parse(text: str) -> Query:
    """Return the syntax tree of a query; raises QueryError with the place."""
    admit(text)
    try:
        without, constructors = cut_constructors(text, _embedded) if "<" in text else (text, [])
        try:
            return Queries(text, constructors).query(_read(text, without, "start").children[0])
        except (NotSupported, _SyntaxFault) as refused:
            cut, blocks = _beyond(text, without, refused)
            query = Queries(text, constructors, blocks=blocks)
            return query.query(_read(text, cut, "start").children[0])
    except RecursionError:
        # Only where the caller is itself deep in the stack, or a quote hides nesting.
        message = "the query is too complex: nested too deep to be read here"
        raise TooComplex.at(0, message, text) from None


_HIDDEN = re.compile(r"--[^\n]*|\"[^\"]*\"|'[^']*'|\{[^{}]*\}")
_BLOCK = re.compile(r"(?<![\w.:@/$-])[^\W\d][\w.-]*(?=\s*/)")


def _beyond(
    text: str, without: str, refused: QueryError, *, united: bool = True
) -> tuple[str, list[Block]]:
    """Return a query without the blocks that the grammar refuses, and these blocks.

    A `|` behind a block begins another one if they may be `united`, or else a derived node.
    """
    from xscl.language.blocks import BlockReader, Unreadable  # loads elementpath

    if (broken := broken_declaration(text)) is not None:
        raise broken from None
    declared, at = declarations(text)
    paths = Paths(text, declared)
    whole = without

    def read(start: str, span: Span, again: str | None = None) -> Tree[Token]:
        return (
            _read(text, whole, start, span) if again is None else _read(again, again, start, span)
        )

    reader = BlockReader(paths, whole, read)
    blocks: list[Block] = []
    while (block := _BLOCK.search(without, at)) is not None:
        hidden = _HIDDEN.search(without, at)
        if hidden is not None and hidden.start() < block.start():
            at = hidden.end()
            continue
        try:
            start, at = block.start(), reader.end(block.start(), united=united)
        except Unreadable:
            raise refused from None
        try:
            (only,) = _read(text, whole, "block_start", Span(start, at)).children
            paths.block(only)
        except (NotSupported, _SyntaxFault, ValueError) as error:
            wrong = error if isinstance(error, QueryError) else refused
            try:
                blocks.append(reader.block(start, at))
            except Unreadable:
                raise wrong from None
            mark = "\x02" + "\x03" * (at - start - 1)  # two blocks side by side stay two
            without = without[:start] + mark + without[at:]
    if not blocks:
        raise refused
    return without, blocks


def parse_block(text: str, *, short: bool = False) -> Block:
    """Return a block, as it is printed in the definition of a variable; perhaps a derived one.

    It is read once for all texts of its shape, which then share what no constant is in.  `short`
    asks for its conditions in their shortest form.
    """
    return (_SHORT_BLOCKS if short else _BLOCKS)(text)


def _block(text: str) -> Block:
    try:
        block, *derived = _read(text, text, "block_start").children
        read = Paths(text).block(block)
    except (NotSupported, _SyntaxFault) as refused:
        cut, blocks = _beyond(text, text, refused, united=False)
        block, *derived = _read(text, cut, "block_start").children
        read = Paths(text, blocks=blocks).block(block)
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
        start=["start", "block_start", "bracket_start", "formula_start"],
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
        raise _SyntaxFault(wrong.message, source, wrong.line, wrong.column, wrong.hint) from None
