"""Tree patterns of blocks and their canonical variables.

A block is a tree of pattern nodes: the steps of its main path and of every branch that binds a
variable.  All other branches are conditions.  A variable is identified by its *definition*: the
stream and the chain of steps from the document root to the node.  Each step includes the conditions
and the branches that stage 2 does not see.  So equal patterns share their witnesses, whatever the
names of their variables.

The automaton installs definitions step by step.  Thousands of steps differ in nothing but
constants.  Those of one shape (`xscl.language.constants`) have one *form*: their test, and their
conditions and the plan of these (`xscl.shredding.conditions.atoms`) with holes for constants.  So a
step of a known shape is neither parsed nor planned, whatever definition it is in: its constants are
read, and its places look them up.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from xscl.language import syntax
from xscl.language.constants import Constant, Filler, ShapeMemo
from xscl.language.grammar import closing
from xscl.language.parser import parse_block
from xscl.language.scope import binds, conjuncts, shortest
from xscl.language.unparse import unparse
from xscl.shredding.automaton.structure import is_structural
from xscl.shredding.conditions.atoms import Lookups, plan


@dataclass(frozen=True, slots=True)
class PatternNode:
    """One node of a tree pattern; `step` is without variable and with plain conditions only."""

    step: syntax.Step
    parent: int | None
    variable: str | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """The tree pattern of a block: nodes with parents first, and the main path's last node."""

    stream: str
    nodes: tuple[PatternNode, ...]
    main: int

    def chain(self, number: int) -> tuple[int, ...]:
        """Return the numbers of the nodes from the top down to node `number`, both included."""
        found: list[int] = []
        current: int | None = number
        while current is not None:
            found.append(current)
            current = self.nodes[current].parent
        return tuple(reversed(found))

    def definitions(self, kept: Collection[int]) -> tuple[str, ...]:
        """Return the definitions of the variables of the nodes `kept`, which stage 2 sees."""
        chains = list(map(self.chain, kept))
        visible = set(chain.from_iterable(chains))
        texts = {node: unparse(self._closed(node, visible)) for node in visible}
        return tuple([self.stream + "".join(map(texts.__getitem__, one)) for one in chains])

    def _closed(self, number: int, visible: Collection[int]) -> syntax.Step:
        """Return the step of node `number`; its branches that are not visible become conditions."""
        branches = [
            syntax.Exists(syntax.Path((self._closed(child, visible),)))
            for child, node in enumerate(self.nodes)
            if node.parent == number and child not in visible
        ]
        step = self.nodes[number].step
        if not branches:  # the step's own conditions are canonical already
            return step
        return replace(step, conditions=canonical((*step.conditions, *branches)))


def pattern(block: syntax.Block) -> Pattern:
    """Return the tree pattern of a block."""
    nodes: list[PatternNode] = []
    main = _grow(nodes, block.steps, None)
    return Pattern(block.stream, tuple(nodes), main)


def _grow(nodes: list[PatternNode], steps: tuple[syntax.Step, ...], parent: int | None) -> int:
    """Append the nodes of a path below `parent`, and of its branches.

    Return the number of the path's last node.
    """
    for step in steps:
        plain: list[syntax.Condition] = []
        branches: list[syntax.Exists] = []
        for condition in conjuncts(*step.conditions):
            if isinstance(condition, syntax.Exists) and binds(condition):  # only paths bind
                branches.append(condition)
            else:
                plain.append(condition)
        conditions = canonical(tuple(plain)) if plain else ()
        bare = syntax.Step(
            step.test, step.descendant, step.attribute, conditions, derived=step.derived
        )
        nodes.append(PatternNode(bare, parent, step.variable))
        parent = len(nodes) - 1
        for branch in branches:
            _grow(nodes, branch.path.steps, parent)
    assert parent is not None, "a path of a block has at least one step"
    return parent


def canonical(conditions: tuple[syntax.Condition, ...]) -> tuple[syntax.Condition, ...]:
    """Return the conditions in a form that equal ones share: nested, sorted, each once."""
    flat = tuple(map(_canonical, conjuncts(*conditions)))
    always = syntax.Exists(syntax.Path())
    distinct = {unparse(one): one for one in conjuncts(*flat) if one != always}
    return tuple(map(distinct.__getitem__, sorted(distinct)))


def _canonical(condition: syntax.Condition) -> syntax.Condition:
    match condition:
        case syntax.Exists(path):
            return _nested(path, None)
        case syntax.ValueTest(path, operator, value, None) if condition.is_comparison:
            tail = syntax.Path((), path.text)
            return _nested(replace(path, text=None), syntax.ValueTest(tail, operator, value))
        case syntax.ValueTest(path):
            return replace(condition, path=_canonical_path(path))
        case syntax.Residual():
            return condition
        case syntax.And(parts):
            return _connected(syntax.And, canonical(parts))
        case syntax.Or(parts):
            each = {unparse(c): c for c in (_connected(syntax.And, canonical((p,))) for p in parts)}
            return _connected(syntax.Or, tuple(each[text] for text in sorted(each)))
        case syntax.Not(part):
            return syntax.Not(_connected(syntax.And, canonical((part,))))


def _connected(
    connective: type[syntax.And[syntax.Condition]] | type[syntax.Or[syntax.Condition]],
    parts: tuple[syntax.Condition, ...],
) -> syntax.Condition:
    if not parts:
        return syntax.Exists(syntax.Path())
    return parts[0] if len(parts) == 1 else connective(parts)


def _nested(path: syntax.Path, last: syntax.Condition | None) -> syntax.Condition:
    """Return `a[b[last]]` for the path `a/b`, and for `.` the last condition itself."""
    if not path.steps:
        if path.text is not None:
            return syntax.Exists(path)
        return syntax.Exists(syntax.Path()) if last is None else last
    first, rest = path.steps[0], replace(path, steps=path.steps[1:])
    inner = _nested(rest, last)
    step = replace(first, conditions=canonical((*first.conditions, inner)), variable=None)
    return syntax.Exists(syntax.Path((step,)))


def _canonical_path(path: syntax.Path) -> syntax.Path:
    steps = tuple(
        replace(step, conditions=canonical(step.conditions), variable=None) for step in path.steps
    )
    return replace(path, steps=steps)


# -- Definitions read back ---------------------------------------------------------------

MOST = 10_000
"""The most forms of steps that are cached."""
# No group is repeated with `*+`: Python before 3.11.5 matches it wrongly (gh-106052).
_TEXT = r"""[^]\["'({-]++ | -(?!-) | \((?!:) | "[^"]*" | (?<![\w.'])'[^']*'"""
_STEP = re.compile(
    rf"""//?@?(?:Q\{{[^{{}}]*\}})?[^\s/\[]*
    (?: \[ (?: {_TEXT} | \[ (?: {_TEXT} | \[(?:{_TEXT})*\] )* \] )* \] )*""",
    re.VERBOSE,
)
"""A step and its conditions, up to one with deep brackets, braces or comments in it."""


def stream_of(definition: str) -> str:
    """Return the name of the stream with which a definition begins."""
    return definition.partition("/")[0]


def steps_of(definition: str, at: int) -> Iterator[str]:
    """Yield the texts of a definition's steps from the offset `at` on.

    The last text may be ` | ` and an operand.
    """
    end = len(definition)
    while at < end:
        start, step = at, _STEP.match(definition, at)
        at = end if step is None else step.end()
        while definition.startswith("[", at):
            at = closing(definition, at, end)
        yield definition[start:at]


def is_derived(definition: str) -> bool:
    """Return True if a definition is that of a derived node's variable: it ends in an operand."""
    *_, last = steps_of(definition, len(stream_of(definition)))
    return not last.startswith("/")


class DefinedStep(NamedTuple):
    """A step without its conditions, and apart from it the conditions and their plan."""

    step: syntax.Step
    conditions: tuple[syntax.Condition, ...]
    plan: Lookups


class StepForm:
    """Steps of one shape.

    `conditions`, `plan`, and `derived` if there is one, are functions of constants.
    """

    __slots__ = ("alternatives", "conditions", "count", "derived", "plan", "step", "structural")

    def __init__(self, defined: DefinedStep, fill: Filler) -> None:
        self.step = defined.step
        self.conditions = fill(defined.conditions)
        self.plan = fill(defined.plan)
        self.count = len(defined.conditions)
        self.structural = all(map(is_structural, defined.conditions))
        self.alternatives = syntax.Or in map(type, defined.conditions)
        self.derived = None if self.step.derived is None else fill(self.step.derived)

    def __call__(self, constants: Sequence[Constant]) -> DefinedStep:
        derived = self.derived and self.derived(constants)
        step = self.step if derived is None else replace(self.step, derived=derived)
        return DefinedStep(step, self.conditions(constants), self.plan(constants))


def _read(text: str) -> syntax.Step:
    return parse_block(f"S{text}").steps[-1]


def _defined(step: syntax.Step, _: str) -> DefinedStep:
    if not step.conditions:
        return DefinedStep(step, (), ())
    conditions = shortest(step.conditions)
    return DefinedStep(replace(step, conditions=()), conditions, plan(conditions))


FORMS = ShapeMemo(_read, _defined, MOST, StepForm)
"""The forms of steps, which know their constants."""
