"""Blocks in full XPath: what XSCL's own grammar of conditions does not accept is read here.

The grammar finds the steps of a block and their brackets.  A bracket that holds a condition of XSCL
becomes one, so that the automaton and its indexes evaluate it.  The rest is XPath
(`xscl.language.xpath`): an expression that holds at a node or, for a position and for
a path with other axes, the condition that a path selects the node.

This module is imported with the first block that needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

from lark import Token, Tree

from xscl.errors import NotSupported, QueryError
from xscl.language import syntax
from xscl.language.faults import SyntaxFault
from xscl.language.grammar import Lexeme, lexemes, read
from xscl.language.paths import (
    Formulas,
    formulas,
    inside,
    is_token,
    slashed,
    span_of,
)
from xscl.language.scope import binds
from xscl.language.unparse import MEMBER
from xscl.language.xpath import WrongXPath, normalised, parsed
from xscl.language.xpath_tree import (
    XPath,
    is_absolute,
    is_numeric,
    is_of_parent,
    is_path,
    kinds,
    may_be_number,
    rewritten,
    uses_position,
)

_SIGNS_OF_STEPS = ("/", "//", "::", "@", "$")
"""Signs behind which a word is a name, and no operator."""


@dataclass(frozen=True, slots=True)
class WrittenStep:
    """A step of a path as it is written: `span` is that of axis and test, without conditions.

    `test` is lark's tree of a name test, None for any other test; `brackets` are the spans inside
    the brackets.
    """

    span: syntax.Span
    descendant: bool
    axis: str
    test: Tree[Token] | None
    brackets: tuple[syntax.Span, ...]
    variable: Token | None
    text: str

    @property
    def attribute(self) -> bool:
        return self.axis == "attribute"


class BlockReader(Formulas):
    """Reads blocks, paths and conditions of one text, which may hold full XPath."""

    # -- Blocks ----------------------------------------------------------------------------

    def block(self, tree: Tree[Token]) -> syntax.Block:
        """Return the block of lark's tree; raises QueryError."""
        stream = cast(Token, tree.children[0])
        paths: list[list[WrittenStep]] = []
        for before, child in pairwise(tree.children):
            if isinstance(child, Tree):
                paths.append(self._written(child))
            elif is_token(before, "AS"):
                paths[-1][-1] = replace(paths[-1][-1], variable=child)
            elif is_token(before, "UNION") and child != stream:
                hint = "write a block for each path, or S//a | S//b"
                raise self.fault(before, "a union cannot stand here", hint)
        if len(paths) > 1:
            *others, last = (one for path in paths for one in path)
            self._refuse_bound(others)
            texts = ["".join(self._step_text(one, one.brackets) for one in path) for path in paths]
            step = self._selected(" | ".join(texts), span_of(tree), None)
            return syntax.Block(str(stream), (self.bound(step, last.variable),), span_of(stream))
        (steps,) = paths
        if len(steps) == 1 and steps[0].text == "." and not steps[0].descendant:
            root = syntax.Step(syntax.NameTest(None, None), span=span_of(stream))
            root = self.bound(root, steps[0].variable)
            return syntax.Block(str(stream), (self._conditioned(root, steps[0]),), span_of(stream))
        return syntax.Block(str(stream), self._steps(steps, relative=False), span_of(stream))

    # -- Paths -----------------------------------------------------------------------------

    def _written(self, *trees: Tree[Token]) -> list[WrittenStep]:
        """Return the steps of a path, from lark's trees of one step and of steps behind slashes."""
        return [
            self._written_step(step, descendant)
            for tree in trees
            for descendant, step in (slashed(tree) if tree.data == "steps" else [(False, tree)])
        ]

    def _written_step(self, tree: Tree[Token], descendant: bool) -> WrittenStep:
        bindings = [cast(Token, child) for child in tree.children if is_token(child, "NAME")]
        for second in bindings[1:]:
            message = f"this step is bound to {str(bindings[0])!r} already"
            raise self.fault(second, message)
        brackets = [child for child in tree.children if is_token(child, "BRACKET")]
        *axis, test = tree.children[: len(tree.children) - len(bindings) - len(brackets)]
        span = syntax.Span(span_of(tree).start, span_of(test).end)
        sign = next(lexemes(self.source, span)).text
        return WrittenStep(
            span,
            descendant,
            ("attribute" if sign == "@" else sign) if axis else "child",
            test if isinstance(test, Tree) else None,
            tuple(inside(cast(Token, bracket)) for bracket in brackets),
            bindings[0] if bindings else None,
            self.source[span.start : span.end],
        )

    def _steps(self, raw: Sequence[WrittenStep], *, relative: bool) -> tuple[syntax.Step, ...]:
        """Return the steps of a path; one step (`_general`) if the automaton cannot follow it."""
        steps: list[syntax.Step] = []
        for number, one in enumerate(raw):
            last = number == len(raw) - 1
            if one.text == "." and not one.descendant and steps and one.variable is None:
                steps[-1] = self._conditioned(steps[-1], one)
            elif last and steps and self._is_text(one):
                if one.variable is not None:
                    hint = "bind the element that holds the text"
                    raise self.fault(one.span, "text() cannot be bound", hint)
                held = syntax.Exists(syntax.Path((), "child"))
                steps[-1] = replace(steps[-1], conditions=(*steps[-1].conditions, held))
            elif one.test is not None and self._is_simple(one):
                descends = one.descendant or one.axis == "descendant"
                bare = syntax.Step(self.name_test(one.test), descends, one.attribute, span=one.span)
                steps.append(self._conditioned(self.bound(bare, one.variable), one))
            else:
                return self._general(raw, relative=relative)
        return tuple(steps)

    def _is_text(self, one: WrittenStep) -> bool:
        plain = not one.descendant and not one.brackets
        return plain and one.text.replace(" ", "") == "text()"

    def _is_simple(self, one: WrittenStep) -> bool:
        if one.axis == "child":
            return True
        placed = any(self._is_placed(bracket) for bracket in one.brackets)
        if one.axis == "attribute":
            return not placed
        return one.axis == "descendant" and not one.descendant and not placed

    def _general(self, raw: Sequence[WrittenStep], *, relative: bool) -> tuple[syntax.Step, ...]:
        """Return one step to all nodes that a path with axes beyond the automaton selects."""
        if relative:
            message = "a variable bound by a path with this axis"
            raise self.beyond(raw[0].span, message, "bind it in a path of names")
        *before, last = raw
        self._refuse_bound(before)
        binding = [bracket for bracket in last.brackets if self._binds(bracket)]
        others = tuple(bracket for bracket in last.brackets if bracket not in binding)
        texts = [self._step_text(one, one.brackets) for one in before]
        path = "".join((*texts, self._step_text(last, others)))
        step = self._selected(path, last.span, last)
        step = self.bound(step, last.variable)
        return (self._conditioned(step, replace(last, brackets=tuple(binding))),)

    def _refuse_bound(self, steps: Sequence[WrittenStep]) -> None:
        for step in steps:
            if step.variable is not None:
                message = "a variable before another axis cannot be bound"
                hint = "bind the last step, or write the path from the top down"
                raise self.fault(step.variable, message, hint)

    def _step_text(self, one: WrittenStep, brackets: Sequence[syntax.Span]) -> str:
        inner = "".join(f"[{self._xpath(bracket)}]" for bracket in brackets)
        return f"{'//' if one.descendant else '/'}{self._xpath(one.span)}{inner}"

    def _selected(self, path: str, span: syntax.Span, last: WrittenStep | None) -> syntax.Step:
        """Return a step to the nodes that a path from the document on selects.

        `last` is the last step of the path, None of a union.
        """
        text = normalised(path, self.prefixes)
        token = self._parsed(text, span)
        if not is_path(token):
            raise self.fault(span, "this selects no nodes", "write a path")
        if last is not None and last.test is not None:
            test, attribute = self.name_test(last.test), last.attribute
        else:
            test, attribute = syntax.NameTest(None, None), self._selects_attributes(token, span)
        member = syntax.Residual(text, selects=True)
        return syntax.Step(test, True, attribute, (member,), span=span)

    def _selects_attributes(self, token: XPath, span: syntax.Span) -> bool:
        """Return True if a path selects attributes; raises if it selects elements, too."""
        selected = set(kinds(token))
        if len(selected) > 1:
            hint = "write one block for each"
            raise self.fault(span, "a union of elements and attributes", hint)
        return "attribute" in selected

    # -- Conditions ------------------------------------------------------------------------

    def _conditioned(self, step: syntax.Step, one: WrittenStep) -> syntax.Step:
        """Return `step` with the conditions in the brackets of `one` added."""
        before: list[str] = []
        conditions: list[syntax.Condition] = []
        placed = [place for place, each in enumerate(one.brackets) if self._is_placed(each)]
        for place, bracket in enumerate(one.brackets):
            if place not in placed:
                condition = self.full_condition(bracket)
                conditions.append(condition)
                before.append("" if binds(condition) else self._xpath(bracket))
                continue
            before.append(self._xpath(bracket))
            if place == placed[-1]:  # `before` has the earlier ones, too
                conditions.append(self._placed(bracket, one, before))
        return replace(step, conditions=(*step.conditions, *conditions))

    def full_condition(self, span: syntax.Span) -> syntax.Condition:
        """Return the condition in a span of the text; raises QueryError."""
        text = self.source[span.start : span.end].strip()
        if (path := self._member(text)) is not None:
            return syntax.Residual(path, selects=True)
        try:
            return self.bracket(span)
        except (NotSupported, SyntaxFault) as error:
            return self._beyond_grammar(span, error)

    def _member(self, text: str) -> str | None:
        """Return the path in the printed text of a `Residual` with `selects`; else None."""
        if not text.startswith(MEMBER):
            return None
        path = normalised(text[len(MEMBER) : -1], self.prefixes)
        try:
            token = parsed(path)
            whole = parsed(normalised(text, self.prefixes))
        except WrongXPath:
            return None
        member = whole.symbol == "intersect" and whole.parts[1] == parsed(f"({path})")
        whole_path = is_absolute(token) or is_of_parent(token)
        return path if member and is_path(token) and whole_path else None

    def _beyond_grammar(self, span: syntax.Span, refused: QueryError) -> syntax.Condition:
        """Return the condition in a span that XSCL's grammar refuses with the error `refused`."""
        for word, connective in (("or", syntax.Or), ("and", syntax.And)):
            parts = self._split(word, span)
            if len(parts) > 1:
                found = tuple(map(self.full_condition, parts))
                if connective is syntax.Or and any(map(binds, found)):
                    hint = "bind it in its own condition"
                    raise self.fault(span, "a variable cannot be bound under or", hint)
                return connective(found)
        inner = self._inner(span)
        if inner is not None:
            negated, part = inner
            condition = self.full_condition(part)
            if negated and binds(condition):
                raise refused
            return syntax.Not(condition) if negated else condition
        if self._binds(span) and not self.source[span.start : span.end].lstrip().startswith("/"):
            return syntax.Exists(syntax.Path(self._bound_path(span, refused)))
        token = self._parsed(self._xpath(span), span, refused)
        simpler = rewritten(token)
        # elementpath prints `- -n` as `--n`, which begins a comment here
        if simpler is not None and "--" not in simpler and self._is_spelled(token):
            return self._again(simpler, span)
        if is_numeric(token):
            raise self.fault(span, "a number is no condition here", "compare it")
        return syntax.Residual(self._xpath(span))

    def _is_spelled(self, token: XPath) -> bool:
        """Return True if an expression is the same one after elementpath has printed it."""
        try:
            return token == parsed(token.source)
        except WrongXPath:
            return False

    def _again(self, text: str, span: syntax.Span) -> syntax.Condition:
        """Return the condition that `text` holds.  Errors are reported at `span`, its origin."""
        try:
            reader = BlockReader(text, self.prefixes)
            return reader.full_condition(syntax.Span(0, len(text)))
        except QueryError as error:
            raise self.fault(span, error.message, error.hint) from None

    def _binds(self, span: syntax.Span) -> bool:
        """Return True for `path->name` and `path AS name`, unlike `x treat as type`."""
        words = self._words(span, "[")
        named = any(
            one.lower() == "as"
            and before.lower() not in ("cast", "castable", "treat")
            and after[0].isidentifier()
            and ":" not in after
            for before, one, after in zip(["", *words], words, words[1:], strict=False)
        )
        return "->" in words or named

    def _words(self, span: syntax.Span, whole: str) -> list[str]:
        return [lexeme.text for lexeme in lexemes(self.source, span, whole)]

    def _bound_path(self, span: syntax.Span, refused: QueryError) -> tuple[syntax.Step, ...]:
        """Return the steps of a relative path that binds a variable; else raises `refused`."""
        try:
            tree = read(self.source, "path_start", span)
        except SyntaxFault:
            raise refused from None
        steps = self._written(*formulas(tree))
        if len(steps) > 1 and steps[0].text == "." and not steps[0].brackets:
            del steps[0]
        if is_token(tree.children[-1], "NAME"):
            steps[-1] = replace(steps[-1], variable=cast(Token, tree.children[-1]))
        return self._steps(steps, relative=True)

    def _inner(self, span: syntax.Span) -> tuple[bool, syntax.Span] | None:
        """Return the expression inside `not(...)` or parentheses, and whether it is negated."""
        found = list(lexemes(self.source, span))
        negated = len(found) == 2 and found[0].text == "not"
        if not (negated or len(found) == 1) or not found[-1].text.startswith("("):
            return None
        part = syntax.Span(found[-1].span.start + 1, found[-1].span.end - 1)
        if "," in self._words(part, "[") or (
            not negated and is_path(self._parsed(self._xpath(span), span))
        ):
            return None
        return negated, part

    def _is_placed(self, span: syntax.Span) -> bool:
        """Return True for a condition on the position of a node."""
        text = self.source[span.start : span.end]
        if self._binds(span) or text.strip().startswith(MEMBER):
            return False
        try:
            token = parsed(normalised(text, self.prefixes))
        except WrongXPath:
            return False
        return may_be_number(token) or uses_position(token)

    def _placed(self, span: syntax.Span, one: WrittenStep, texts: list[str]) -> syntax.Condition:
        """Return the condition on a position, which is the last of `texts`.

        `texts` are the conditions of the step `one` so far.  The condition holds at a node if the
        step with all of `texts` selects this node from its parent.
        """
        if one.axis != "child" or one.test is None or "" in texts:
            raise self.fault(span, "a position of this step", "count other nodes")
        conditions = "".join(f"[{text}]" for text in texts)
        place = span_of(one.test)
        test = self.source[place.start : place.end]
        path = normalised(f"../{test}{conditions}", self.prefixes)
        self._parsed(path, span)
        return syntax.Residual(path, selects=True)

    # -- XPath -----------------------------------------------------------------------------

    def _xpath(self, span: syntax.Span) -> str:
        return normalised(self.source[span.start : span.end], self.prefixes)

    def _parsed(self, text: str, span: syntax.Span, refused: QueryError | None = None) -> XPath:
        """Return the tree of a text in a span; raises QueryError.

        If XPath's error has no hint, the one that the grammar has `refused` it with is raised.
        """
        try:
            return parsed(text)
        except WrongXPath as error:
            if refused is not None and error.hint is None and "yet" not in refused.message:
                line, column = refused.line, refused.column
                raise QueryError(
                    refused.message, refused.source, line, column, refused.hint
                ) from None
            written = self.source[span.start : span.end]
            at = len(written) - len(written.lstrip()) + error.at if text == self._xpath(span) else 0
            raise self.fault(syntax.Span(span.start + at), str(error), error.hint) from None

    def _split(self, word: str, span: syntax.Span) -> list[syntax.Span]:
        """Return the spans of the operands of the connective `word`; without it the span itself."""
        parts: list[list[Lexeme]] = [[]]
        found = list(lexemes(self.source, span))
        words = ["", *(one.text for one in found), ""]
        for at, one in enumerate(found):
            before, after = words[at], words[at + 2]
            named = after == "::" or before in _SIGNS_OF_STEPS
            clause = one.text in ("some", "every", "for") and after == "$"
            if clause or (one.text == "if" and after.startswith("(") and not named):
                parts[-1] += found[at:]  # the body of this clause contains all that follows
                break
            if one.text.lower() == word and not named:
                parts.append([])
            else:
                parts[-1].append(one)
        if not all(parts):
            return [span]
        return [syntax.Span(part[0].span.start, part[-1].span.end) for part in parts]
