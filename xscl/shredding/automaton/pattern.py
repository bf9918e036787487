"""Tree patterns of blocks and their canonical variables.

A block is a tree of pattern nodes: the steps of its main path and of every branch that binds a
variable.  All other branches are conditions.  A variable is identified by its *definition*: the
stream and the chain of steps from the document root to the node.  Each step includes the conditions
and the branches that stage 2 does not see.  So equal patterns share their witnesses, whatever the
names of their variables.

The automaton installs definitions.  Thousands of them differ in nothing but constants.  Those of
one shape (`xscl.language.constants`) have one *form*: their steps, and the plan of the conditions
of each (`xscl.shredding.conditions.atoms`) with holes for constants.  So a definition of a known
shape is neither parsed nor planned: its constants are read, and its places look them up.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import NamedTuple

from xscl.language import syntax
from xscl.language.constants import Constant, Filler, ShapeMemo
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
        """Return the nodes from the top to one node, both included."""
        found: list[int] = []
        current: int | None = number
        while current is not None:
            found.append(current)
            current = self.nodes[current].parent
        return tuple(reversed(found))

    def definitions(self, kept: Collection[int]) -> list[syntax.Block]:
        """Return the definitions of the variables of the nodes that stage 2 sees."""
        chains = list(map(self.chain, kept))
        visible = set(chain.from_iterable(chains))
        steps = {node: self._closed(node, visible) for node in visible}
        return [syntax.Block(self.stream, tuple(map(steps.__getitem__, one))) for one in chains]

    def _closed(self, number: int, visible: Collection[int]) -> syntax.Step:
        """Return a node's step with every branch that is not visible as a condition."""
        branches = [
            syntax.Exists(syntax.Path((self._closed(child, visible),)))
            for child, node in enumerate(self.nodes)
            if node.parent == number and child not in visible
        ]
        step = self.nodes[number].step
        if not branches:  # its conditions are canonical
            return step
        return replace(step, conditions=canonical((*step.conditions, *branches)))


def pattern(block: syntax.Block) -> Pattern:
    """Return the tree pattern of a block."""
    nodes: list[PatternNode] = []
    main = _grow(nodes, block.steps, None)
    return Pattern(block.stream, tuple(nodes), main)


def definitions(found: Pattern, kept: Collection[int]) -> tuple[str, ...]:
    """Return the texts of the definitions of the nodes that stage 2 sees."""
    blocks = found.definitions(kept)
    texts = tuple(map(unparse, blocks))
    if len(_printed) > RECENT:
        _printed.clear()
    _printed.update(zip(texts, blocks, strict=True))
    return texts


def _grow(nodes: list[PatternNode], steps: tuple[syntax.Step, ...], parent: int | None) -> int:
    """Append the nodes of a path and of its binding branches; return the last step's number."""
    for step in steps:
        plain: list[syntax.Condition] = []
        branches: list[syntax.Exists] = []
        for condition in conjuncts(*step.conditions):
            if isinstance(condition, syntax.Exists) and binds(condition):  # no other kind does
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
"""Forms that are remembered."""
RECENT = 256
_printed: dict[str, syntax.Block] = {}
"""The blocks of the definitions that were printed last, by their texts.

Without them a new shape of queries takes 1.6 times as long: its definitions were parsed again.
"""


class DefinedStep(NamedTuple):
    """A step without its conditions, the definition up to it, and its conditions with their plan.

    `text` is empty without conditions.
    """

    step: syntax.Step
    text: str
    conditions: tuple[syntax.Condition, ...]
    plan: Lookups


class VariableDefinition(NamedTuple):
    """A definition: its stream and steps; what is derived from the last one's node, or None."""

    stream: str
    steps: tuple[DefinedStep, ...]
    derived: syntax.Operand | None


class StepForm:
    """A step of definitions of one shape; `conditions` and `plan` are functions of constants."""

    __slots__ = ("alternatives", "conditions", "count", "plan", "step", "structural", "text")

    def __init__(self, defined: DefinedStep, fill: Filler) -> None:
        self.step = defined.step
        self.text = fill(defined.text)
        self.conditions = fill(defined.conditions)
        self.plan = fill(defined.plan)
        self.count = len(defined.conditions)
        self.structural = all(map(is_structural, defined.conditions))
        self.alternatives = syntax.Or in map(type, defined.conditions)

    def __call__(self, constants: Sequence[Constant]) -> DefinedStep:
        filled = self.text(constants), self.conditions(constants), self.plan(constants)
        return DefinedStep(self.step, *filled)


class DefinitionForm:
    """Definitions of one shape, as a function of their constants."""

    __slots__ = ("derived", "steps", "stream")

    def __init__(self, definition: VariableDefinition, fill: Filler) -> None:
        self.stream = definition.stream
        self.steps = list(map(StepForm, definition.steps, repeat(fill)))
        derived = definition.derived
        self.derived = None if derived is None else fill(derived)

    def __call__(self, constants: Sequence[Constant]) -> VariableDefinition:
        steps = tuple([one(constants) for one in self.steps])
        return VariableDefinition(self.stream, steps, self.derived and self.derived(constants))


def _block(text: str) -> syntax.Block:
    return _printed.pop(text, None) or parse_block(text)


def _defined(block: syntax.Block, _: str) -> VariableDefinition:
    derived = block.steps[-1].derived
    if derived is not None:
        block = replace(block, steps=block.steps[:-1])
    steps = []
    for number, step in enumerate(shortest(block).steps, 1):
        bare = replace(step, conditions=(), variable=None)
        if step.conditions:
            upto = unparse(syntax.Block(block.stream, block.steps[:number]))
            steps.append(DefinedStep(bare, upto, step.conditions, plan(step.conditions)))
        else:
            steps.append(DefinedStep(bare, "", (), ()))
    return VariableDefinition(block.stream, tuple(steps), derived)


FORMS = ShapeMemo(_block, _defined, MOST, DefinitionForm)
"""The forms of definitions, which know their constants."""


def form_of(definition: str) -> DefinitionForm:
    """Return the form of a definition."""
    return FORMS.find(definition)[0]
