"""Blocks in full XPath: what the grammar of XSCL does not accept is read here.

A path is cut into steps, and a step into its conditions.  What XSCL's own grammar accepts is read
by it, so that the automaton and its indexes evaluate it.  The rest is XPath
(`xscl.language.xpath`): a condition at a node, a position as one at any node, or,
for a path with other axes, the condition that a node is among those it selects.

This module is imported with the first query that the grammar refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from lark import Token, Tree

from xscl.errors import NotSupported, QueryError
from xscl.language.limits import MAX_STEPS
from xscl.language.paths import Paths, binds
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
from xscl.language.xpath import WrongXPath, normalised, parsed, unprefixed
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


class Reader(Protocol):
    """Returns lark's tree of a span of a text, given the start rule."""

    def __call__(self, start: str, span: Span, again: str | None = None) -> Tree[Token]: ...


_NAME = r"[^\W\d](?:[\w.·]|-(?!>))*"
_SPACE = r"(?:\s|--[^\n]*(?:\n|$))*"
_STEP = re.compile(
    rf"""(?P<axis>{_NAME})?(?(axis){_SPACE}::{_SPACE})(?P<at>@{_SPACE})?
    (?P<test>\.\.|\.(?!\d)|Q\{{[^{{}}]*\}}(?:{_NAME}|\*)|\*:{_NAME}|{_NAME}:(?!:)(?:{_NAME}|\*)
      |{_NAME}|\*)(?:{_SPACE}(?P<call>\())?""",
    re.VERBOSE,
)
_SKIP = re.compile(_SPACE)
_BINDING = re.compile(rf"->{_SPACE}({_NAME}'*|{_NAME})")
_AS = re.compile(rf"AS\s+({_NAME})(?![\w.·-]*:)", re.IGNORECASE)  # but not `cast as xs:date`
_QUOTED = re.compile(r'"[^"]*"|\'[^\']*\'|\(:(?:[^:]|:(?!\)))*:\)|--[^\n]*|Q\{[^{}]*\}')
_DOUBLED = re.compile(r'"(?:[^"]|"")*"|\'(?:[^\']|\'\')*\'')
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
    """A text without the form of a block, at a place: the grammar's error says what is wrong."""


class BlockReader:
    """Reads blocks, paths and conditions of one text, which may hold full XPath."""

    def __init__(self, paths: Paths, text: str, read: Reader) -> None:
        self._paths = paths
        self._text = text
        self._read = read

    # -- Blocks ----------------------------------------------------------------------------

    def block(self, start: int, end: int) -> Block:
        """Return the block in a span of the text; raises QueryError."""
        found = re.compile(_NAME).match(self._text, start, end)
        assert found is not None, "a block begins with the name of its stream"
        stream, span = found[0], Span(start, found.end())
        pieces = self._union(stream, found.end(), end)
        if len(pieces) > 1:
            every = [self._raw_steps(*piece) for piece in pieces]
            *others, last = (one for raw in every for one in raw)
            self._refuse_bound(others)
            paths = ["".join(self._step_text(one, one.brackets) for one in raw) for raw in every]
            step = self._selected(" | ".join(paths), Span(start, end), None)
            return Block(stream, (self._bound(step, last.variable),), span)
        steps = self._raw_steps(*pieces[0])
        if len(steps) == 1 and steps[0].text == "." and not steps[0].descendant:
            root = self._bound(Step(NameTest(None, None), span=span), steps[0].variable)
            return Block(stream, (self._conditioned(root, steps[0]),), span)
        return Block(stream, self._steps(steps, relative=False), span)

    def _union(self, stream: str, start: int, end: int) -> list[tuple[int, int]]:
        """Return the spans of the paths of a union of blocks of one stream."""
        pieces, at = [], start
        for sign in self._signs("|", start, end):
            again = re.compile(rf"{_SPACE}{re.escape(stream)}(?=\s*/)").match(self._text, sign + 1)
            if again is None:
                raise self._paths.fault(
                    Span(sign), "a union is of blocks of one stream", f"write | {stream}//..."
                )
            pieces.append((at, sign))
            at = again.end()
        return [*pieces, (at, end)]

    def end(self, start: int, *, united: bool) -> int:
        """Return the end of the block that begins at a place with the name of its stream.

        It is a union if it may be `united`.
        """
        found = re.compile(_NAME).match(self._text, start)
        assert found is not None, "a block begins with the name of its stream"
        stream, at = found[0], found.end()
        again = re.compile(rf"\|{_SPACE}{re.escape(stream)}(?=\s*/)")
        while True:
            ended, at = at, self._skip(at)
            named = _AS.match(self._text, at)
            joined = again.match(self._text, at) if united else None
            if self._text.startswith("/", at):
                at = self._skip(at + (2 if self._text.startswith("//", at) else 1))
                at = self._raw_step(at, len(self._text), descendant=False)[1]
            elif joined is not None:
                at = joined.end()
            else:
                return ended if named is None else named.end()

    # -- Paths -----------------------------------------------------------------------------

    def _raw_steps(self, start: int, end: int) -> list[RawStep]:
        """Return the steps of a path, each behind its slash; a relative one may lack the first."""
        steps: list[RawStep] = []
        at = self._skip(start)
        while at < end:
            slash = "//" if self._text.startswith("//", at) else "/"
            if self._text.startswith("/", at):
                at = self._skip(at + len(slash))
            elif steps:
                raise Unreadable(at)
            else:
                slash = "/"
            step, at = self._raw_step(at, end, descendant=slash == "//")
            steps.append(step)
            if len(steps) > MAX_STEPS:
                raise self._paths.fault(Span(at), f"a path of over {MAX_STEPS} steps")
            at = self._skip(at)
            named = _AS.match(self._text, at, end)
            if named is not None:
                variable = Token("NAME", named[1], start_pos=named.start(1), end_pos=named.end(1))
                steps[-1] = replace(step, variable=variable)
                at = self._skip(named.end())
        return steps

    def _raw_step(self, at: int, end: int, *, descendant: bool) -> tuple[RawStep, int]:
        start, test, axis = at, None, ""
        if self._text.startswith("(", at):
            at = self._closing(at, end) + 1
        else:
            found = _STEP.match(self._text, at, end)
            if found is None:
                raise Unreadable(at)
            axis = found["axis"] or ("attribute" if found["at"] else "child")
            at = found.end()
            if found["call"]:
                at = self._closing(at - 1, end) + 1
            elif found["test"] in (".", ".."):
                axis = "self" if found["test"] == "." else "parent"
            else:
                test = found["test"]
        span = Span(start, at)
        brackets: list[Span] = []
        variable: Token | None = None
        while True:
            ended, at = at, self._skip(at)
            bound = _BINDING.match(self._text, at, end)
            if self._text.startswith("[", at) and at < end:
                closing = self._closing(at, end)
                brackets.append(Span(at + 1, closing))
                at = closing + 1
            elif bound is not None:
                if variable is not None:
                    raise Unreadable(at)
                variable = Token("NAME", bound[1], start_pos=bound.start(1), end_pos=bound.end(1))
                at = bound.end()
            else:
                break
        text = self._text[span.start : span.end].strip()
        return RawStep(span, descendant, axis, test, tuple(brackets), variable, text), ended

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
        end = one.span.end
        tree = self._read("formula_start", Span(end - len(one.test), end)).children[0]
        assert isinstance(tree, Tree)
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
        attribute = last.attribute if last is not None else "@" in path.rpartition("/")[2][:2]
        named = last is not None and last.test is not None
        known = last is not None and named and last.axis not in ("namespace",)
        test = self._name_test(last) if known and last is not None else NameTest(None, None)
        if last is None or last.test is None:
            attribute = self._selects_attributes(token, span)
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
            tree = self._read("bracket_start", span)
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
        text = self._text[span.start : span.end]
        plain = unprefixed(_DOUBLED.sub(_other_quotes, text), self._paths.prefixes)
        if plain != text:
            return self._again(plain, span)
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
        bound = "->" in self._outside(span) or self._names(span)
        path = self._path(span, bound)
        if path is not None:
            return Exists(Path(path))
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
        read = partial(self._read, again=text)
        try:
            return BlockReader(paths, text, read).condition(Span(0, len(text)))
        except QueryError as error:
            raise self._paths.fault(span, error.message, error.hint) from None

    def _names(self, span: Span) -> bool:
        """Return True for `path AS name`, unlike `x treat as type`."""
        found = re.finditer(rf"(\w+\s+)?{_AS.pattern}", self._outside(span), re.IGNORECASE)
        types = ("cast", "castable", "treat")
        return any((one[1] or "").strip().lower() not in types for one in found)

    def _path(self, span: Span, bound: bool) -> tuple[Step, ...] | None:
        """Return the steps of a relative path of names; None for anything else."""
        start = self._skip(span.start)
        if self._text.startswith("./", start):
            start += 1
        elif self._text.startswith("/", start) or not bound:
            return None
        return self._steps(self._raw_steps(start, span.end), relative=True) if bound else None

    def _inner(self, span: Span) -> tuple[bool, Span] | None:
        """Return the expression inside `not(...)` or parentheses, and whether it is negated."""
        found = _NEGATION.match(self._text, span.start, span.end)
        at = found.end() - 1 if found else self._skip(span.start)
        if not self._text.startswith("(", at) or at >= span.end:
            return None
        closing = self._closing(at, span.end)
        if self._skip(closing + 1) < span.end or "," in self._outside(Span(at + 1, closing)):
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

    def _skip(self, at: int) -> int:
        found = _SKIP.match(self._text, at)
        return found.end() if found else at

    def _closing(self, at: int, end: int) -> int:
        """Return the place of the bracket that closes the one at a place."""
        pending = [_CLOSES[self._text[at]]]
        place = at + 1
        while place < end:
            quoted = _QUOTED.match(self._text, place, end)
            sign = self._text[place]
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
                raise Unreadable(place)
            place += 1
        raise Unreadable(at)

    def _outside(self, span: Span, text: str | None = None) -> str:
        """Return the text of a span with all that is quoted or in brackets as blanks."""
        whole = (self._text if text is None else text)[span.start : span.end]
        out, depth, at = [], 0, 0
        while at < len(whole):
            quoted = _QUOTED.match(whole, at)
            if quoted is not None:
                out.append(" " * len(quoted[0]))
                at = quoted.end()
                continue
            sign = whole[at]
            depth += (sign == "[") - (sign == "]" and depth > 0)
            out.append(" " if depth or sign == "]" else sign)
            at += 1
        return "".join(out)

    def _signs(self, sign: str, start: int, end: int) -> Iterator[int]:
        """Yield the places of a sign outside of brackets and quotes."""
        at = start
        while at < end:
            quoted = _QUOTED.match(self._text, at, end)
            if quoted is not None:
                at = quoted.end()
            elif self._text[at] in _CLOSES:
                at = self._closing(at, end) + 1
            else:
                if self._text[at] == sign:
                    yield at
                at += 1

    def _split(self, word: str, span: Span) -> list[Span]:
        """Return the operands of a connective outside of brackets."""
        whole = self._outside(span)
        opened = "".join(_opened(whole))
        clause = _CLAUSE.search(opened)
        parts, at = [], 0
        for found in _CONNECTIVES[word].finditer(opened):
            start, end = found.span()
            if clause is not None and clause.start() < start:
                break
            if whole[at:start].strip() == "" or whole[end:].strip() == "":
                return [span]
            parts.append(Span(span.start + at, span.start + start))
            at = end
        return [*parts, Span(span.start + at, span.end)]


def _other_quotes(found: re.Match[str]) -> str:
    """Return a string with doubled quotes in the other ones, if it has none of those."""
    quote, other = found[0][0], "'" if found[0][0] == '"' else '"'
    inner = found[0][1:-1].replace(quote * 2, quote)
    return found[0] if other in inner or quote * 2 not in found[0][1:-1] else other + inner + other


def _opened(text: str) -> Iterator[str]:
    """Yield the characters of a text, those inside parentheses as blanks."""
    depth = 0
    for sign in text:
        if sign == ")":
            depth -= 1
        yield " " if depth > 0 else sign
        if sign == "(":
            depth += 1


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
