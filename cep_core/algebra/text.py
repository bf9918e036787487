"""Expressions and operators in words, for `explain` and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from cep_core import algebra
from cep_core.algebra import expressions as ex
from cep_core.algebra.nodes import Node, sources_of, streams_of
from cep_core.algebra.pattern_tree import PatternTree
from cep_core.decimals import BoundedDecimal
from cep_core.events import written

Names = Sequence[str]
_UNITS = (
    *(("weeks", 604_800_000_000), ("days", 86_400_000_000), ("h", 3_600_000_000)),
    *(("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)),
)


def counted(number: int, one: str, several: str) -> str:
    """Return a number with its noun: ``one`` is the singular, ``several`` the plural."""
    return f"{number} {one if number == 1 else several}"


def duration_in_words(ticks: int, ticks_per_second: int) -> str:
    """Return a duration in the largest unit that measures it, as CEL writes it; else in ticks."""
    for name, size in _UNITS:
        number, rest = divmod(ticks * 1_000_000, size * ticks_per_second)
        if number and not rest:
            return f"{number} {name.removesuffix('s') if number == 1 and len(name) > 2 else name}"
    return counted(ticks, "tick", "ticks") if ticks else "0 s"


@dataclass(frozen=True, slots=True)
class LiteralValues:
    """The values of a query's literals, and the unit of its times."""

    literals: Sequence[Any]
    ticks_per_second: int


class Words:
    """Writes expressions: columns by names ($1. or $2. before them if ``paired``), and literals."""

    def __init__(self, said: LiteralValues, older: Names, newer: Names, paired: bool) -> None:
        self._literals = said.literals
        self._ticks_per_second = said.ticks_per_second
        self._names = {1: older, 2: newer}
        self._paired = paired
        self._items: dict[int, str] = {}  # texts of `TupleItem`s, by their names

    def __call__(self, node: ex.Expression) -> str:
        """Return an expression in words."""
        match node:
            case ex.Column(side, index):
                names = self._names[side]
                name = names[index] if index < len(names) else f"#{index}"
                return f"${side}.{name}" if self._paired and name[0] != "$" else name
            case ex.Constant(value):
                return _value(value)
            case ex.Parameter(index):
                known = index < len(self._literals)
                return _value(self._literals[index]) if known else f"?{index}"
            case ex.Duration():
                return "DUR"
            case ex.Time(side, edge):
                return f"${side}.{'t0' if edge == 'begin' else 't1'}" if self._paired else edge
            case ex.Missing():
                return "MISSING"
            case ex.TupleItem(name):
                return self._items.get(name, f"#{name}")
            case ex.Every(names, over, condition) | ex.Each(names, over, condition):
                self._items |= {
                    name: f"ALL({self(one)})" for name, one in zip(names, over, strict=True)
                }
                return self(condition)
            case ex.Compare(
                operator,
                ex.Arithmetic("-", ex.Time(), _) as left,
                ex.Constant() | ex.Parameter() as right,
            ):
                return f"{self(left)} {operator} {self.duration(right)}"
            case ex.Negative(operand):
                return f"-{self._inner(operand)}"
            case ex.Compare(operator, ex.Duration(), ex.Constant() | ex.Parameter() as right):
                return f"DUR {operator} {self.duration(right)}"
            case ex.Compare(operator, ex.Constant() | ex.Parameter() as left, ex.Duration()):
                return f"{self.duration(left)} {operator} DUR"
            case ex.Arithmetic(operator, left, right) | ex.Compare(operator, left, right):
                return f"{self._inner(left)} {operator} {self._inner(right)}"
            case ex.Call(function, arguments):
                return f"{function}({', '.join(map(self, arguments))})"
            case ex.Case(items):
                pairs = zip(items[:-1:2], items[1::2], strict=True)
                made = [f"WHEN {self(test)} THEN {self(value)}" for test, value in pairs]
                return f"CASE {' '.join(made)} ELSE {self(items[-1])} END"
            case ex.Coalesce(items):
                return f"COALESCE({', '.join(map(self, items))})"
            case ex.IsNull(operand):
                return f"{self._inner(operand)} IS NULL"
            case ex.And(items):
                return " AND ".join(map(self._inner, items)) or "TRUE"
            case ex.Or(items):
                return " OR ".join(map(self._inner, items)) or "FALSE"
            case ex.Not(item):
                return f"NOT {self._inner(item)}"
            case _:
                assert_never(node)

    def duration(self, node: ex.Expression) -> str:
        """Return a constant number of ticks in words."""
        if isinstance(node, ex.Arithmetic) and node.right == ex.Constant(1):
            return f"<= {self.duration(node.left)}"  # below x + 1 tick is up to x
        value = node.value if isinstance(node, ex.Constant) else None
        if isinstance(node, ex.Parameter) and node.index < len(self._literals):
            value = self._literals[node.index]
        if type(value) is not int or value < 0:
            return self(node)
        return duration_in_words(value, self._ticks_per_second)

    def _inner(self, node: ex.Expression) -> str:
        compound = isinstance(node, ex.And | ex.Or | ex.Arithmetic)
        return f"({self(node)})" if compound else self(node)


def operator_in_words(node: Node, said: LiteralValues) -> str:
    """Return an operator on one line, without inputs; ``said`` has the values of literals."""
    say = _words_over(sources_of(node)[:2], said)
    match node:
        case algebra.Stream(name):
            return name
        case algebra.Select(_, predicate):
            return f"FILTER{{{say(predicate)}}}"
        case algebra.Project(_, columns, schema):
            pairs = zip(schema.names, map(say, columns), strict=True)
            return "SELECT " + ", ".join(
                name if name == text else f"{text} AS {name}" for name, text in pairs
            )
        case algebra.Union():
            return "UNION"
        case algebra.Sequence(_, _, predicate, rank=rank):
            return f"{'NEXT' if rank is None else 'NEXT FIRST'}{{{say(predicate)}}}"
        case algebra.Iterate():
            return _iterate(node, said)
        case algebra.GroupAggregate(window=window):
            over = "AT INSTANT" if window is None else f"WINDOW {say.duration(window)}"
            return f"{_aggregates(node, say)} {over}"
        case algebra.WindowJoin(_, _, predicate, window):
            return f"JOIN{{{say(predicate)}, {say.duration(window)}}}"
        case algebra.OuterJoin(_, _, predicate, None, upper):
            if node.moment:
                ends = "" if predicate == ex.FALSE else f" \\{{{say(predicate)}}}"
                return f"@{{{say.duration(upper)}}}{ends}"
            condition = f"{{{say(predicate)}, {say.duration(upper)}}}"
            return f"FOLLOWED BY{condition} ELSE" if node.paired else f"NOT FOLLOWED BY{condition}"
        case algebra.OuterJoin(_, _, predicate, lower, upper, alone):
            assert lower is not None
            bounds = f"{say.duration(lower)} TO {say.duration(upper)}"
            side = {(True, False): " LEFT", (False, True): " RIGHT"}.get(alone, "")
            return f"JOIN{{{say(predicate)}, {bounds}}} ELSE{side}"
        case algebra.PatternMatch():
            return pattern_in_words(node, said)
        case _:
            assert_never(node)


_ROWS = {"value": "", "current": "[i]", "previous": "[i-1]", "first": "[1]", "last": "[last]"}


def part_in_words(part: algebra.Part, node: algebra.PatternMatch) -> str:
    """Return a part of a pattern as text (`2[i].price`); components are numbered from 1."""
    name, number = "", part.component + 1
    if part.index is not None:
        name = node.inputs[node.components[part.component].input].schema.names[part.index]
    match part.role:
        case "start" | "first_end" | "end" | "current_end" | "previous_end":
            return f"{number}.{part.role}"
        case "first" | "last" if part.offset:
            return f"{part.role.upper()}({number}.{name}, {part.offset})"
        case "value" | "current" | "previous" | "first" | "last":
            return f"{number}{_ROWS[part.role]}.{name}"
        case role:
            run = f"{number}[{'..i-1' if part.before else ''}]"
            return f"{role}({run}{'.' if name else ''}{name})"


def _tree(node: algebra.PatternMatch, tree: PatternTree, said: LiteralValues) -> str:
    """Return a tree of a pattern; its components are written as the streams that they read."""

    def read(component: int) -> str:
        return read_in_words(node.inputs[node.components[component].input])

    def lasting(word: str, bound: int | None) -> str:
        if bound is None:
            return ""
        return f" {word} {Words(said, (), (), False).duration(node.rules.spans[bound])}"

    match tree:
        case algebra.One(component, mark, until):
            ends = "".join([f" \\ {read(one)}" for one in until])
            return f"{mark} {read(component)}{ends}" if mark else f"{read(component)}{ends}"
        case algebra.Loop(inner, pace="every"):
            return f"every {_tree(node, inner, said)}"
        case algebra.Loop(inner, least, most, pace, mark, until):
            times = f"{{{least},{'' if most is None else most}}}"
            words = " ".join([*([pace] if pace != "all" else []), *([mark] if mark else [])])
            end = "" if until is None else f" until {read(until)}"
            return f"{_tree(node, inner, said)}{times}{' ' * bool(words)}{words}{end}"
        case algebra.Chain(parts):
            return f"({', '.join(_tree(node, part, said) for part in parts)})"
        case algebra.Choice(parts):
            return f"({' | '.join(_tree(node, part, said) for part in parts)})"
        case algebra.Unordered(components, span):
            return f"({' AND '.join(map(read, components))}{lasting('within', span)})"
        case algebra.Absent(component, time=time):
            return f"!{read(component)}{lasting('for', time)}"
        case _:
            assert_never(tree)


def pattern_in_words(node: algebra.PatternMatch, said: LiteralValues) -> str:
    """Return a pattern on one line: its tree, conditions, window and policy.

    ``said`` has the values of the literals.
    """
    rules, names = node.rules, [part_in_words(part, node) for part in node.parts]
    say = Words(said, (), names, False)
    found = [_tree(node, node.tree, said), f"{{{say(node.predicate)}}}"]
    found += [] if rules.tests == ex.TRUE else [f"ended unless {{{say(rules.tests)}}}"]
    found += [] if rules.mark == "any" else [rules.mark]
    if rules.window is not None:
        found.append(f"within {'<= ' * rules.inclusive}{say.duration(rules.window)}")
    found += ["nonstrict"] * rules.simultaneous
    if rules.policy != "none":
        target = "" if rules.target is None else f" {rules.target + 1}"
        found.append(f"after match {rules.policy}{target}")
    return "PATTERN" + " ".join(found)


def read_in_words(node: Node) -> str:
    """Return the names of the streams that a node reads, as ANY(..) if there are several."""
    names = list(streams_of(node))
    return names[0] if len(names) == 1 else f"ANY({', '.join(names)})"


def _iterate(node: algebra.Iterate, said: LiteralValues) -> str:
    later = node.schema.names[len(node.left.schema) :]
    shown = [*(f"$1.{name}" for name in node.left.schema.names), *(f"$.{name}" for name in later)]
    say = Words(said, shown, node.right.schema.names, True)
    names = node.schema.names[len(node.schema.names) - len(node.aggregates) :]
    pairs = zip(node.aggregates, names, strict=True)
    parts = [say(node.filter), say(node.rebind), *[f"{say(one)} AS {name}" for one, name in pairs]]
    return f"{'LONGEST ' if node.longest else ''}FOLD{{{', '.join(parts)}}}"


def _aggregates(node: algebra.GroupAggregate, say: Words) -> str:
    texts = []
    for aggregate in node.aggregates:
        arguments = [say(part) for part in (aggregate.argument, aggregate.by) if part is not None]
        texts.append(f"{aggregate.function}({', '.join(arguments) or '*'})")
    groups = [node.source.schema.names[column] for column in node.group_by]
    return ", ".join(texts) + (f" GROUP BY {', '.join(groups)}" if groups else "")


def _words_over(sources: Sequence[Node], said: LiteralValues) -> Words:
    """Return the writer of expressions over the rows of one source, or over pairs of two.

    ``said`` has the values of literals.
    """
    *older, newer = [source.schema.names for source in sources] or [()]
    return Words(said, older[0] if older else (), newer, paired=bool(older))


def _value(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, BoundedDecimal):
        return str(value)
    return f"'{value}'" if isinstance(value, str) else written(value)
