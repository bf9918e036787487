"""Read a query back as one English sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from templates.model.join_graph import SYMMETRIC_JOIN, TemporalRelation
from xscl.language import syntax
from xscl.language.calendars import calendar_words
from xscl.language.parser import parse
from xscl.language.scope import (
    binds,
    bound_steps,
    conjuncts,
    distinct_names,
    leaves,
    rewritten,
    walk,
)
from xscl.language.unparse import literal, unparse
from xscl.time_format import UNITS

_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)
_UNITS = {"ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day", "w": "week"}
_VERBS: Mapping[str, str] = {
    "=": "is",
    "!=": "is not",
    "<": "is less than",
    "<=": "is at most",
    ">": "is more than",
    ">=": "is at least",
    "contains": "contains",
    "starts-with": "starts with",
    "ends-with": "ends with",
    "matches": "matches",
}
_SHARED: dict[syntax.ComparisonSign, str] = {"=": "the same", "!=": "another"}
_NAMES = syntax.VariablePath | syntax.DecoratedName
_WHOSE = ("the last one's", "the earlier one's", "its")
"""Whose a decorated name is: `$.x`, `$1.x`, `$2.x`."""
_ALONE: Mapping[tuple[bool, bool], str] = {
    (False, False): "",
    (True, True): ", or either comes alone",
    (True, False): ", or the first comes alone",
    (False, True): ", or the second comes alone",
}


def sentence(source: str) -> str:
    """Return a query as one sentence; raises QueryError."""
    query = parse(source)
    expression = distinct_names(query.expression)
    reading = _Reading(expression)
    begin = "Tell me about each" if isinstance(expression, syntax.Block) else "Tell me when"
    words = reading.clause(expression)
    if isinstance(expression, syntax.Block):
        words = words.partition(" ")[2]
    once = ", each result once" if query.distinct else ""
    made = "" if query.select is None else f"; write <{query.select.name}> of it"
    publish = "" if query.publish is None else f"; publish it as {query.publish}"
    return f"{begin} {words}{once}{made}{publish}."


class _Reading:
    """Puts the parts of one query into words.

    It knows the query's blocks by number, and the name of each variable's node.
    """

    def __init__(self, expression: syntax.StreamExpression) -> None:
        self._blocks = _blocks(expression)
        self._places = {
            step.variable: (number, "time" if block.is_calendar else _local(step))
            for number, block in enumerate(self._blocks)
            for step in bound_steps(block)
        }

    def clause(self, expression: syntax.StreamExpression) -> str:
        """Return the words of an expression: a noun phrase for a block, else a clause."""
        match expression:
            case syntax.Block():
                return self._noun(expression)
            case syntax.Query(inner):
                return self.clause(inner)
            case syntax.Join(left, right, predicate, operator=operator) if not operator.follows:
                near = _apart(expression.relation)
                words = f"{self._side(left)} and {self._side(right)} {near}"
                once = ", each pair once" if operator is SYMMETRIC_JOIN else ""
                return self._with(words, right, predicate) + once + _ALONE[expression.alone]
            case syntax.Join(left, right, predicate, alone=(waits, _), negated=negated):
                within = _within(expression.relation)
                verb = _chained(left) or ("is not followed" if negated else "is followed")
                late = ", or is not in that time" if waits and not negated else ""
                words = f"{self.clause(left)}{_comma(left)} {verb}{within} by {self._side(right)}"
                return self._with(words, right, predicate) + late
            case syntax.Next(left, right, predicate):
                verb = "then next" if _chained(left) else "is next followed"
                words = f"{self.clause(left)}{_comma(left)} {verb} by {self._side(right)}"
                return self._with(words, right, predicate)
            case syntax.Fold(left, right, predicate, again, aggregates):
                verb = "then" if _chained(left) else "is followed"
                words = (
                    f"{self.clause(left)}{_comma(left)} {verb} by one or more,"
                    f" each {self._side(right)}"
                )
                words = self._with(words, right, predicate)
                if again is not None:
                    words += f", as long as {self._said(again, self._last(right))}"
                named = ", ".join(name for name, _ in aggregates)
                words += f", and count {named}" if named else ""
                return f"{words}; each run once, when it ends" if expression.longest else words
            case _:
                assert_never(expression)

    def _side(self, expression: syntax.StreamExpression) -> str:
        """Return the words of an operand: a clause stands in parentheses."""
        words = self.clause(expression)
        while isinstance(expression, syntax.Query):
            expression = expression.expression
        return words if isinstance(expression, syntax.Block) else f"({words})"

    def _last(self, expression: syntax.StreamExpression) -> int:
        """Return the number of the last block of an expression."""
        return self._blocks.index(_blocks(expression)[-1])

    # -- Blocks ----------------------------------------------------------------------------

    def _noun(self, block: syntax.Block) -> str:
        """Return the words of a block: `an item of news whose category is 'sea'`."""
        if block.is_calendar:
            words = calendar_words(block.stream)
            return f"an instant {words[0].lower()}{words[1:]}"
        named = [step for step in block.steps if step.derived is None]
        noun = _local(named[-1]) if named else "document"
        noun = "document" if noun == "*" else noun
        article = "an" if noun[:1].lower() in "aeiou" else "a"
        tested = [
            words
            for step in named
            for condition in step.conditions
            if (words := _tested(condition)) != ""
        ]
        return " ".join([f"{article} {noun} of {block.stream}", " and ".join(tested)]).rstrip()

    # -- Predicates ------------------------------------------------------------------------

    def _with(
        self, words: str, right: syntax.StreamExpression, predicate: syntax.Predicate | None
    ) -> str:
        """Return `words` with the comparisons in `predicate` added, in words.

        `right` is the right operand of the operator that has the predicate.
        """
        parts = conjuncts(predicate)
        shared = {part: text for part in parts if (text := self._shared(part)) is not None}
        last = self._last(right)
        rest = " and ".join(self._said(part, last) for part in parts if part not in shared)
        told = [" and ".join(shared.values())] if shared else []
        words += f" with {told[0]}" if told else ""
        return f"{words}{' and' if told else ''} where {rest}" if rest else words

    def _shared(self, part: syntax.Predicate) -> str | None:
        """Return `the same title` or `another title`, None for other comparisons."""
        if not isinstance(part, syntax.Comparison) or part.operator not in _SHARED:
            return None
        sides = [self._property(operand) for operand in (part.left, part.right)]
        return f"{_SHARED[part.operator]} {sides[0]}" if sides[0] and sides[0] == sides[1] else None

    def _property(self, operand: syntax.Operand) -> str:
        """Return an operand as text, with the names of nodes in place of variables and paths.

        "" if it has no variable, or has `$.x`.
        """
        names = [leaf for leaf in leaves(operand) if isinstance(leaf, _NAMES)]
        of_last = any(isinstance(one, syntax.DecoratedName) and not one.input for one in names)
        if of_last or not names:
            return ""
        return unparse(rewritten(operand, self._named))

    def _named(self, leaf: syntax.Operand) -> syntax.Operand:
        return syntax.VariablePath(self._leaf(leaf)) if isinstance(leaf, _NAMES) else leaf

    def _leaf(self, leaf: syntax.VariablePath | syntax.DecoratedName) -> str:
        """Return the name of the node that a variable or a path leads to."""
        if isinstance(leaf, syntax.DecoratedName):  # of two equal names the left has `_1`
            left = self._places.get(f"{leaf.name}_1", (0, leaf.name))
            return self._places.get(leaf.name, left)[1]
        if leaf.path.steps:
            return _local(leaf.path.steps[-1])
        return self._places.get(leaf.variable, (0, leaf.variable))[1]

    def _said(self, predicate: syntax.Predicate, last: int) -> str:
        """Return the words of a predicate; `last` is the number of the block called `its`."""
        match predicate:
            case syntax.Comparison(word, left, right) | syntax.Call(word, (left, right)):
                return f"{self._value(left, last)} {_VERBS[word]} {self._value(right, last)}"
            case syntax.Call():
                return unparse(predicate)
            case syntax.And(parts):
                return " and ".join(self._said(part, last) for part in parts)
            case syntax.Or(parts):
                return f"({' or '.join(self._said(part, last) for part in parts)})"
            case syntax.Not(part):
                return f"not ({self._said(part, last)})"
            case _:
                assert_never(predicate)

    def _value(self, operand: syntax.Operand, last: int) -> str:
        """Return the words of an operand: `the first's title`, `its title` of the block `last`."""
        match operand:
            case syntax.VariablePath(variable) if variable in self._places:
                number, _ = self._places[variable]
                whose = "its" if number == last else f"the {_ordinal(number)}'s"
                return f"{whose} {self._leaf(operand)}"
            case syntax.DecoratedName(number):
                return f"{_WHOSE[number]} {self._leaf(operand)}"
            case syntax.Call(function, arguments):
                values = (self._value(argument, last) for argument in arguments)
                return f"{function}({', '.join(values)})"
            case _:
                return unparse(operand)


def _blocks(expression: syntax.StreamExpression) -> list[syntax.Block]:
    return [node for node in walk(expression) if isinstance(node, syntax.Block)]


def _tested(condition: syntax.Condition) -> str:
    """Return the words of a condition on one document; empty for one that only binds."""
    match condition:
        case syntax.Exists(path):
            return "" if binds(path) else f"with {_words(path)}"
        case syntax.ValueTest(path, operator, value, None, ""):
            return f"whose {_words(path)} {_VERBS[operator]} {literal(value)}"
        case syntax.ValueTest() | syntax.Residual():
            return f"where {unparse(condition)}"
        case syntax.And(parts):
            return " and ".join(_each(parts))
        case syntax.Or(parts):
            return " or ".join(_each(parts))
        case syntax.Not(syntax.ValueTest(path, "=", value, None)):
            return f"without the {_words(path)} {literal(value)}"
        case syntax.Not(syntax.Exists(path)) if not binds(path):
            return f"without {_words(path)}"
        case syntax.Not(part):
            return f"but not {_tested(part)}"
        case _:
            assert_never(condition)


def _each(parts: Iterable[syntax.Condition]) -> Iterator[str]:
    return (words for part in parts if (words := _tested(part)) != "")


def _words(path: syntax.Path) -> str:
    return _local(path.steps[-1]) if path.steps else "text"


def _local(step: syntax.Step) -> str:
    return step.test.local or "*"


def _span(window: int) -> str:
    """Return the length of a window in words: `3 days`."""
    for unit, length in sorted(UNITS.items(), key=lambda item: -item[1]):
        if unit != "w" and window and window % length == 0:
            count = window // length
            return f"{count:,} {_UNITS[unit]}{'' if count == 1 else 's'}"
    return f"{window} ticks"


def _within(relation: TemporalRelation) -> str:
    """Return the window of a FOLLOWED BY in words, such as ` within 3 days`; "" without one."""
    upper = "" if relation.window is None else f" within {_span(relation.window)}"
    if relation.least is None:
        return upper
    return f" after at least {_span(relation.least)}{' and' if upper else ''}{upper}"


def _apart(relation: TemporalRelation) -> str:
    """Return the window of a JOIN in words, such as `come at most 3 days apart`."""
    if relation.least is None:
        window = relation.window
        return "both come" if window is None else f"come at most {_span(window)} apart"
    begin = _distance(relation.least, "the first")
    if relation.window is None:
        return f"come, the second from {begin} on"
    return f"come, the second from {begin} to {_distance(relation.window, 'it')}"


def _distance(ticks: int, of: str) -> str:
    if not ticks:
        return f"the time of {of}"
    return f"{_span(abs(ticks))} {'after' if ticks > 0 else 'before'} {of}"


def _chained(left: syntax.StreamExpression) -> str:
    """Return "then" if the left operand is a FOLLOWED BY, "" if it is anything else."""
    follows = isinstance(left, syntax.Join) and left.operator.follows and not left.negated
    return "then" if follows else ""


def _comma(left: syntax.StreamExpression) -> str:
    return "," if isinstance(left, syntax.Join | syntax.Next | syntax.Fold) else ""


def _ordinal(number: int) -> str:
    return _ORDINALS[number] if number < len(_ORDINALS) else f"{number + 1}th"
