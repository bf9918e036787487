"""Blocks in full XPath: what the grammar of XSCL does not accept is read here.

A path is cut into steps, and a step into its conditions.  What XSCL's own grammar accepts is read
by it, so that the automaton and its indexes evaluate it.  The rest is XPath
(`xscl.language.xpath`): a condition at a node, a position as one at any node, or,
for a path with other axes, the condition that a node is among those it selects.

`hidden` makes tokens of what the grammar lacks, steps and brackets, so that the grammar finds the
steps of all blocks; `BlockReader` reads what is hidden.

This module is imported with the first query that the grammar refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias, cast

from lark import Token, Tree

from xscl.errors import NotSupported, QueryError
from xscl.language.faults import SyntaxFault
from xscl.language.limits import MAX_STEPS
from xscl.language.paths import Node, Paths, binds, formulas, is_token, span_of, tree_of
from xscl.language.syntax import (
    And,
    Block,
    Condition,
    Exists,
    NameTest,
    Not,
    Or,
    Path,
    Residual,
    Span,
    Step,
)
from xscl.language.unparse import MEMBER
from xscl.language.xpath import WrongXPath, normalised, parsed
from xscl.language.xpath_analysis import (
    is_absolute,
    is_numeric,
    is_of_parent,
    is_path,
    is_same,
    may_be_number,
    rewritten,
    uses_position,
)

Reader: TypeAlias = "Callable[[str, str, str, Span], Tree[Token]]"
"""Returns lark's tree of a span of a text, given the text to show in errors and the start rule."""

_NAME = r"[^\W\d](?:[\w.·]|-(?!>))*"
_SPACE = r"(?:\s|--[^\n]*(?:\n|$))*"
_STEP = re.compile(
    rf"""(?P<axis>{_NAME})?(?(axis){_SPACE}::{_SPACE})(?P<at>@{_SPACE})?
    (?P<test>\.\.|\.(?!\d)|Q\{{[^{{}}]*\}}(?:{_NAME}|\*)|\*:{_NAME}|{_NAME}:(?!:)(?:{_NAME}|\*)
      |{_NAME}|\*)(?:{_SPACE}(?P<call>\())?""",
    re.VERBOSE,
)
_SKIP = re.compile(_SPACE)
_AS = re.compile(rf"AS\s+({_NAME})(?![\w.·-]*:)", re.IGNORECASE)  # but not `cast as xs:date`
_PASSED = re.compile(
    rf"""--[^\n]*|"[^"]*"|'[^']*'|\{{(?:Q\{{[^{{}}]*\}}|[^{{}}])*\}}
    |(?P<name>{_NAME})|(?P<slash>//?)|(?P<bracket>\[)|(?P<bar>\|(?:{_SPACE}({_NAME})(?=\s*/))?)""",
    re.VERBOSE,
)
"""What a text has outside of steps and brackets; behind a bar the stream of a block."""
_QUOTED = re.compile(r'"[^"]*"|\'[^\']*\'|\(:(?:[^:]|:(?!\)))*:\)|--[^\n]*|Q\{[^{}]*\}')
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_CONNECTIVES = {
    word: re.compile(rf"(?<![\w.\-$@:/]){word}(?![\w.\-]|\s*::)", re.IGNORECASE)
    for word in ("and", "or")
}
_CLAUSE = re.compile(r"(?<![\w.\-$@:/])(?:(?:some|every|for)\s+\$|if\s*\()")
"""The beginning of an expression that goes on behind a connective."""
_NEGATION = re.compile(r"\s*not\s*\(")
_BARE = r"[A-Z][\w.\-]*"
_UNQUOTED = (
    re.compile(rf"(?:!=|=)\s*(?P<name>{_BARE})\s*$"),
    re.compile(rf"(?:contains|starts-with|ends-with)\s*\([^(),]*,\s*(?P<name>{_BARE})\s*\)"),
)


@dataclass(frozen=True, slots=True)
class RawStep:
    """A step of a path as it is written: `span` is that of axis and test, without conditions.

    `test` is None for what is not a name test; `brackets` are the spans inside the brackets.
    """

    span: Span
    descendant: bool
    axis: str
    test: str | None
    brackets: tuple[Span, ...]
    variable: Token | None
    text: str

    @property
    def attribute(self) -> bool:
        return self.axis == "attribute"


class Unreadable(Exception):
    """A text without the form of a block: the grammar's error says what is wrong."""


def hidden(text: str, *, united: bool, span: Span | None = None) -> str:
    """Return a text whose brackets and steps other than names are single tokens of the grammar.

    All places stay.  A `|` before the stream of its block is the sign of a union if blocks may be
    `united`; otherwise what follows it is no block.  A `span` is that of a path alone.
    """
    at, end = (0, len(text)) if span is None else (span.start, span.end)
    shown, stream = list(text), ""

    def hide(start: int, stop: int, first: str, others: str) -> None:
        shown[start:stop] = first + others * (stop - start - 1)

    def step(start: int) -> int:
        """Hide the step at a place unless it is a test of a name; return its end."""
        stop, _, test = _step(text, start, end)
        if test is None or "::" in text[start:stop].partition("Q{")[0]:
            hide(start, stop, "\x02", "\x03")
        return stop

    if span is not None and not text.startswith("/", at):
        at = step(at)
    while (found := _PASSED.search(text, at, end)) is not None:
        at = found.end()
        if found["name"] and text.startswith("/", _skip(text, at)):
            stream = found["name"]
        elif found["slash"]:
            with suppress(Unreadable):
                at = step(_skip(text, at))
        elif found["bracket"]:
            at = _closing(text, found.start(), end) + 1
            hide(found.start(), at, "\x04", "\x05")
        elif found["bar"] and not united:
            break
        elif found["bar"] and found[5] == stream:
            at = found.start() + 1
            hide(found.start(), at, "\x06", "")
    return "".join(shown)


class BlockReader:
    """Reads blocks, paths and conditions of one text, which may hold full XPath.

    `refused` is the error of the grammar.
    """

    def __init__(self, paths: Paths, text: str, refused: QueryError, read: Reader) -> None:
        self._paths = paths
        self._text = text
        self._refused = refused
        self._read = read

    def _tree(self, start: str, span: Span) -> Tree[Token]:
        return self._read(self._paths.source, self._text, start, span)

    # -- Blocks ----------------------------------------------------------------------------

    def block(self, tree: Tree[Token]) -> Block:
        """Return the block of a tree with hidden parts; raises QueryError."""
        try:
            return self._block(tree)
        except Unreadable:
            raise self._refused from None

    def _block(self, tree: Tree[Token]) -> Block:
        stream = cast(Token, tree.children[0])
        paths: list[list[RawStep]] = []
        for before, child in pairwise(tree.children):
            if isinstance(child, Tree):
                paths.append(self._raw_steps(child))
            elif is_token(before, "AS"):
                paths[-1][-1] = replace(paths[-1][-1], variable=child)
        if len(paths) > 1:
            *others, last = (one for raw in paths for one in raw)
            self._refuse_bound(others)
            texts = ["".join(self._step_text(one, one.brackets) for one in raw) for raw in paths]
            step = self._selected(" | ".join(texts), span_of(tree), None)
            return Block(str(stream), (self._bound(step, last.variable),), span_of(stream))
        (steps,) = paths
        if len(steps) == 1 and steps[0].text == "." and not steps[0].descendant:
            root = Step(NameTest(None, None), span=span_of(stream))
            root = self._bound(root, steps[0].variable)
            return Block(str(stream), (self._conditioned(root, steps[0]),), span_of(stream))
        return Block(str(stream), self._steps(steps, relative=False), span_of(stream))

    # -- Paths -----------------------------------------------------------------------------

    def _raw_steps(self, *trees: Tree[Token]) -> list[RawStep]:
        """Return the steps of a path, from lark's trees of one step and of steps behind slashes."""
        found: list[RawStep] = []
        for tree in trees:
            if tree.data != "steps":
                found.append(self._raw_step(tree, descendant=False))
                continue
            for slash, step in zip(tree.children[::2], tree.children[1::2], strict=True):
                descendant = str(tree_of(slash).children[0]) == "//"
                found.append(self._raw_step(tree_of(step), descendant=descendant))
        if len(found) > MAX_STEPS:
            raise self._paths.fault(found[-1].span, f"a path of over {MAX_STEPS} steps")
        return found

    def _raw_step(self, tree: Tree[Token], *, descendant: bool) -> RawStep:
        brackets: list[Span] = []
        variable: Token | None = None
        head: list[Node] = []
        for child in tree.children:
            if is_token(child, "XPATH_BRACKET"):
                place = span_of(child)
                brackets.append(Span(place.start + 1, place.end - 1))
            elif isinstance(child, Tree) and child.data == "binding":
                if variable is not None:
                    raise Unreadable
                variable = cast(Token, child.children[0])
            else:
                head.append(child)
        span = Span(span_of(head[0]).start, span_of(head[-1]).end)
        _, axis, test = _step(self._text, span.start, span.end)
        text = self._text[span.start : span.end].strip()
        return RawStep(span, descendant, axis, test, tuple(brackets), variable, text)

    def _steps(self, raw: Sequence[RawStep], *, relative: bool) -> tuple[Step, ...]:
        """Return the steps of a path; those that the automaton lacks become a condition."""
        steps: list[Step] = []
        for number, one in enumerate(raw):
            last = number == len(raw) - 1
            if one.text == "." and not one.descendant and steps and one.variable is None:
                steps[-1] = self._conditioned(steps[-1], one)
            elif last and steps and self._is_text(one):
                if one.variable is not None:
                    raise self._paths.fault(
                        one.span, "text() cannot be bound", "bind the element that holds the text"
                    )
                held = Exists(Path((), "child"))
                steps[-1] = replace(steps[-1], conditions=(*steps[-1].conditions, held))
            elif one.test is not None and self._is_simple(one):
                bare = Step(self._name_test(one), self._descends(one), one.attribute, span=one.span)
                steps.append(self._conditioned(self._bound(bare, one.variable), one))
            else:
                return self._general(raw, relative=relative)
        return tuple(steps)

    def _is_text(self, one: RawStep) -> bool:
        plain = not one.descendant and not one.brackets
        return plain and one.text.replace(" ", "") == "text()"

    def _is_simple(self, one: RawStep) -> bool:
        if one.axis == "child":
            return True
        placed = any(self._is_placed(bracket) for bracket in one.brackets)
        if one.axis == "attribute":
            return not placed
        return one.axis == "descendant" and not one.descendant and not placed

    def _descends(self, one: RawStep) -> bool:
        return one.descendant or one.axis == "descendant"

    def _name_test(self, one: RawStep) -> NameTest:
        assert one.test is not None
        place = Span(one.span.end - len(one.test), one.span.end)
        tree = tree_of(self._tree("formula_start", place).children[0])
        return self._paths.path(tree).steps[0].test if tree.data == "path" else NameTest(None, None)

    def _bound(self, step: Step, variable: Token | None) -> Step:
        return step if variable is None else self._paths.bound(step, variable)

    def _general(self, raw: Sequence[RawStep], *, relative: bool) -> tuple[Step, ...]:
        """Return one step, of the nodes that a path with other axes selects."""
        if relative:
            raise NotSupported.at(
                raw[0].span.start,
                "a variable bound by a path with this axis",
                self._paths.source,
                "bind it in a path of names",
            )
        *before, last = raw
        self._refuse_bound(before)
        binding = [b for b in last.brackets if "->" in self._outside(b)]
        others = tuple(b for b in last.brackets if b not in binding)
        texts = [self._step_text(one, one.brackets) for one in before]
        path = "".join((*texts, self._step_text(last, others)))
        step = self._selected(path, last.span, last)
        step = self._bound(step, last.variable)
        return (self._conditioned(step, replace(last, brackets=tuple(binding))),)

    def _refuse_bound(self, steps: Sequence[RawStep]) -> None:
        for one in steps:
            if one.variable is not None:
                raise self._paths.fault(
                    Span(one.variable.start_pos or 0),
                    "a variable before another axis cannot be bound",
                    "bind the last step, or write the path from the top down",
                )

    def _step_text(self, one: RawStep, brackets: Sequence[Span]) -> str:
        inner = "".join(f"[{self._xpath(bracket)}]" for bracket in brackets)
        return f"{'//' if one.descendant else '/'}{self._xpath(one.span)}{inner}"

    def _selected(self, path: str, span: Span, last: RawStep | None) -> Step:
        """Return a step to the nodes that a path from the document on selects."""
        text = normalised(path, self._paths.prefixes)
        token = self._parsed(text, span)
        if not is_path(token):
            raise self._paths.fault(span, "this selects no nodes", "write a path")
        if last is not None and last.test is not None:
            test, attribute = self._name_test(last), last.attribute
        else:
            test, attribute = NameTest(None, None), self._selects_attributes(token, span)
        member = Residual(text, selects=True)
        return Step(test, True, attribute, (member,), span=span)

    def _selects_attributes(self, token: object, span: Span) -> bool:
        """Return True if a path selects attributes; raises if it selects elements, too."""
        kinds = set(_kinds(token))
        if len(kinds) > 1:
            raise self._paths.fault(
                span, "a union of elements and attributes", "write one block for each"
            )
        return "attribute" in kinds

    # -- Conditions ------------------------------------------------------------------------

    def _conditioned(self, step: Step, one: RawStep) -> Step:
        """Return a step with the conditions in its brackets."""
        before: list[str] = []
        conditions: list[Condition] = []
        placed = [place for place, each in enumerate(one.brackets) if self._is_placed(each)]
        for place, bracket in enumerate(one.brackets):
            if place not in placed:
                condition = self.condition(bracket)
                conditions.append(condition)
                before.append("" if binds(condition) else self._xpath(bracket))
                continue
            before.append(self._xpath(bracket))
            if place == placed[-1]:  # its path has the ones before it
                conditions.append(self._placed(bracket, one, before))
        return replace(step, conditions=(*step.conditions, *conditions))

    def condition(self, span: Span) -> Condition:
        """Return the condition in a span of the text; raises QueryError."""
        text = self._text[span.start : span.end].strip()
        if (path := self._member(text)) is not None:
            return Residual(path, selects=True)
        try:
            tree = self._tree("bracket_start", span)
        except QueryError as error:
            return self._beyond(span, error)
        try:
            return self._paths.bracket(tree)
        except NotSupported as error:
            return self._beyond(span, error)

    def _member(self, text: str) -> str | None:
        """Return the path of a condition that a node is among those that it selects."""
        if not text.startswith(MEMBER):
            return None
        path = normalised(text[len(MEMBER) : -1], self._paths.prefixes)
        try:
            token = parsed(path)
            whole = parsed(normalised(text, self._paths.prefixes))
        except WrongXPath:
            return None
        member = whole.symbol == "intersect" and is_same(whole[1], parsed(f"({path})"))
        whole_path = is_absolute(token) or is_of_parent(token)
        return path if member and is_path(token) and whole_path else None

    def _beyond(self, span: Span, refused: QueryError) -> Condition:
        """Return a condition that the grammar refuses."""
        for word, connective in (("or", Or), ("and", And)):
            parts = self._split(word, span)
            if len(parts) > 1:
                found = tuple(map(self.condition, parts))
                if connective is Or and any(map(binds, found)):
                    raise self._paths.fault(
                        span, "a variable cannot be bound under or", "bind it in its own condition"
                    )
                return connective(found)
        inner = self._inner(span)
        if inner is not None:
            negated, part = inner
            condition = self.condition(part)
            if negated and binds(condition):
                raise refused
            return Not(condition) if negated else condition
        if self._binds(span):
            return Exists(Path(self._bound_path(span)))
        self._refuse_unquoted(span)
        token = self._checked(span, refused)
        simpler = rewritten(token)
        if simpler is not None and self._is_spelled(token):
            return self._again(simpler, span)
        if is_numeric(token):
            raise self._paths.fault(span, "a number is no condition here", "compare it")
        return Residual(self._xpath(span))

    def _is_spelled(self, token: object) -> bool:
        """Return True if an expression is the same one after elementpath has printed it."""
        try:
            return is_same(token, parsed(str(token.source)))  # type: ignore[attr-defined]
        except WrongXPath:
            return False

    def _again(self, text: str, span: Span) -> Condition:
        """Return the condition in a span, which was written anew; an error is placed there."""
        paths = Paths(text, self._paths.prefixes)
        try:
            whole = Span(0, len(text))
            return BlockReader(paths, text, self._refused, self._read).condition(whole)
        except QueryError as error:
            raise self._paths.fault(span, error.message, error.hint) from None

    def _binds(self, span: Span) -> bool:
        """Return True for `path->name` and `path AS name`, unlike `x treat as type`."""
        start, outside = _skip(self._text, span.start), self._outside(span)
        if self._text.startswith("/", start):
            return False
        found = re.finditer(rf"(\w+\s+)?{_AS.pattern}", outside, re.IGNORECASE)
        types = ("cast", "castable", "treat")
        return "->" in outside or any((one[1] or "").strip().lower() not in types for one in found)

    def _bound_path(self, span: Span) -> tuple[Step, ...]:
        """Return the steps of a relative path that binds a variable."""
        start = _skip(self._text, span.start)
        span = Span(start + self._text.startswith("./", start), span.end)
        try:
            shown = hidden(self._text, united=False, span=span)
            tree = self._read(self._paths.source, shown, "path_start", span)
        except SyntaxFault:
            raise Unreadable from None
        raw = self._raw_steps(*formulas(tree))
        if not raw:
            raise Unreadable
        if is_token(tree.children[-1], "NAME"):
            raw[-1] = replace(raw[-1], variable=cast(Token, tree.children[-1]))
        return self._steps(raw, relative=True)

    def _inner(self, span: Span) -> tuple[bool, Span] | None:
        """Return the expression inside `not(...)` or parentheses, and whether it is negated."""
        found = _NEGATION.match(self._text, span.start, span.end)
        at = found.end() - 1 if found else _skip(self._text, span.start)
        if not self._text.startswith("(", at) or at >= span.end:
            return None
        closing = _closing(self._text, at, span.end)
        if _skip(self._text, closing + 1) < span.end or "," in self._outside(Span(at + 1, closing)):
            return None
        if not found and is_path(self._checked(span, None)):
            return None
        return found is not None, Span(at + 1, closing)

    def _is_placed(self, span: Span) -> bool:
        """Return True for a condition on the position of a node."""
        text = self._text[span.start : span.end]
        if "->" in self._outside(span) or text.strip().startswith(MEMBER):
            return False
        try:
            token = parsed(normalised(text, self._paths.prefixes))
        except WrongXPath:
            return False
        return may_be_number(token) or uses_position(token)

    def _placed(self, span: Span, one: RawStep, texts: list[str]) -> Condition:
        """Return a condition on the position, the last of the conditions so far.

        The node is among those that the step with all these conditions selects at its parent.
        """
        if one.axis != "child" or one.test is None or "" in texts:
            raise self._paths.fault(span, "a position of this step", "count other nodes")
        conditions = "".join(f"[{text}]" for text in texts)
        path = normalised(f"../{one.test}{conditions}", self._paths.prefixes)
        self._parsed(path, span)
        return Residual(path, selects=True)

    # -- XPath -----------------------------------------------------------------------------

    def _xpath(self, span: Span) -> str:
        return normalised(self._text[span.start : span.end], self._paths.prefixes)

    def _checked(self, span: Span, refused: QueryError | None) -> object:
        """Return elementpath's tree of a condition; raises the clearest error."""
        try:
            return parsed(self._xpath(span))
        except WrongXPath as error:
            if refused is not None and error.hint is None and "yet" not in refused.message:
                line, column = refused.line, refused.column
                raise QueryError(
                    refused.message, refused.source, line, column, refused.hint
                ) from None
            place = Span(span.start + self._indent(span) + error.at)
            raise self._paths.fault(place, str(error), error.hint) from None

    def _parsed(self, text: str, span: Span) -> object:
        try:
            return parsed(text)
        except WrongXPath as error:
            raise self._paths.fault(span, str(error), error.hint) from None

    def _indent(self, span: Span) -> int:
        text = self._text[span.start : span.end]
        return len(text) - len(text.lstrip())

    def _refuse_unquoted(self, span: Span) -> None:
        """Raise for a capitalized name where a text is probably meant."""
        text = self._text[span.start : span.end]
        for pattern in _UNQUOTED:
            found = pattern.search(text)
            if found is not None:
                name = found["name"]
                raise self._paths.fault(
                    Span(span.start + found.start("name")),
                    f"{name} is the name of an element here",
                    f'write "{name}" for the text, or ./{name} for the element',
                )

    # -- Text ------------------------------------------------------------------------------

    def _outside(self, span: Span, brackets: str = "[") -> str:
        """Return the text of a span; what is quoted or inside such brackets are blanks."""
        out, at = [], span.start
        while at < span.end:
            quoted = _QUOTED.match(self._text, at, span.end)
            sign = self._text[at]
            if quoted is not None:
                out.append(" " * (quoted.end() - at))
                at = quoted.end()
            elif sign in brackets:
                closing = _closing(self._text, at, span.end)
                out += (sign, " " * (closing - at - 1), self._text[closing])
                at = closing + 1
            else:
                out.append(sign)
                at += 1
        return "".join(out)

    def _split(self, word: str, span: Span) -> list[Span]:
        """Return the operands of a connective outside of brackets."""
        whole = self._outside(span, "[(")
        clause = _CLAUSE.search(whole)
        parts, at = [], 0
        for found in _CONNECTIVES[word].finditer(whole):
            start, end = found.span()
            if clause is not None and clause.start() < start:
                break
            if whole[at:start].strip() == "" or whole[end:].strip() == "":
                return [span]
            parts.append(Span(span.start + at, span.start + start))
            at = end
        return [*parts, Span(span.start + at, span.end)]


def _skip(text: str, at: int) -> int:
    found = _SKIP.match(text, at)
    return found.end() if found else at


def _closing(text: str, at: int, end: int) -> int:
    """Return the place of the bracket that closes the one at a place."""
    pending = [_CLOSES[text[at]]]
    place = at + 1
    while place < end:
        quoted = _QUOTED.match(text, place, end)
        sign = text[place]
        if quoted is not None:
            place = quoted.end()
            continue
        if sign in _CLOSES:
            pending.append(_CLOSES[sign])
        elif sign == pending[-1]:
            pending.pop()
            if not pending:
                return place
        elif sign in _CLOSES.values():
            break
        place += 1
    raise Unreadable


def _step(text: str, at: int, end: int) -> tuple[int, str, str | None]:
    """Return the end of the axis and test of a step, its axis, and its test of a name."""
    if text.startswith("(", at):
        return _closing(text, at, end) + 1, "", None
    found = _STEP.match(text, at, end)
    if found is None:
        raise Unreadable
    axis = found["axis"] or ("attribute" if found["at"] else "child")
    if found["call"]:
        return _closing(text, found.end() - 1, end) + 1, axis, None
    if found["test"] in (".", ".."):
        return found.end(), "self" if found["test"] == "." else "parent", None
    return found.end(), axis, found["test"]


def _kinds(token: object) -> Iterator[str]:
    """Yield the kinds of nodes that a path selects: attribute, or element."""
    match getattr(token, "symbol", ""), list(token):  # type: ignore[call-overload]  # a token of elementpath
        case (("|" | "union" | "," | "intersect" | "except"), parts):
            for part in parts:
                yield from _kinds(part)
        case (("/" | "//"), [left, last]) if axis := _staying(last):
            kinds = {*_kinds(left)}
            yield from kinds | ({"element"} if axis == "ancestor-or-self" else set())
        case (("/" | "//" | "!"), [*_, last]):
            yield from _kinds(last)
        case (("(" | "["), [first, *_]):
            yield from _kinds(first)
        case (("@" | "attribute"), _):
            yield "attribute"
        case _:
            yield "element"


def _staying(token: object) -> str | None:
    """Return the axis of a step that may lead from an attribute to itself; None for any other."""
    symbol, parts = getattr(token, "symbol", ""), list(token)  # type: ignore[call-overload]
    match symbol, parts:
        case "[", [first, *_]:
            return _staying(first)
        case ".", []:
            return "self"
        case (("self" | "descendant-or-self" | "ancestor-or-self"), [test]):
            return str(symbol) if test.symbol in ("node", "attribute") else None
        case _:
            return None
