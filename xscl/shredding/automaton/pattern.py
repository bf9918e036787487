"""Tree patterns of blocks and their canonical variables.

A block is a tree of pattern nodes: the steps of its main path and of every branch that binds a
variable.  All other branches are conditions.  A variable is identified by its *definition*: the
stream and the chain of steps from the document root to the node.  Each step includes the conditions
and the branches that stage 2 does not see.  So equal patterns share their witnesses, whatever the
names of their variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from templates.model.relations import Pair
from xscl.language.parser import parse_block
from xscl.language.syntax import (
    And,
    Block,
    Compare,
    Condition,
    Exists,
    Not,
    Or,
    Path,
    Residual,
    Step,
    TextMatch,
)
from xscl.language.unparse import unparse
from xscl.shredding.automaton.automaton_states import PatternPlace
from xscl.shredding.automaton.nfa import Automaton


@dataclass(frozen=True, slots=True)
class PatternNode:
    """One node of a tree pattern; `step` is without variable and with plain conditions only."""

    step: Step
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
        chain: list[int] = []
        current: int | None = number
        while current is not None:
            chain.append(current)
            current = self.nodes[current].parent
        return tuple(reversed(chain))

    def definition(self, number: int, kept: frozenset[int]) -> Block:
        """Return the definition of a node's variable, given the nodes that stage 2 sees."""
        chain = self.chain(number)
        visible = {above for node in kept for above in self.chain(node)}
        return Block(self.stream, tuple(self._closed(node, visible | set(chain)) for node in chain))

    def _closed(self, number: int, visible: set[int]) -> Step:
        """Return a node's step with every branch that is not visible as a condition."""
        branches = (
            Exists(Path((self._closed(child, visible),)))
            for child, node in enumerate(self.nodes)
            if node.parent == number and child not in visible
        )
        step = self.nodes[number].step
        return replace(step, conditions=canonical((*step.conditions, *branches)))


def pattern(block: Block) -> Pattern:
    """Return the tree pattern of a block."""
    nodes: list[PatternNode] = []
    main = _grow(nodes, block.steps, None)
    return Pattern(block.stream, tuple(nodes), main)


def definitions(found: Pattern, kept: frozenset[int]) -> tuple[str, ...]:
    """Return the texts of the definitions of the nodes that stage 2 sees, by their numbers."""
    return tuple(unparse(found.definition(number, kept)) for number in sorted(kept))


def _grow(nodes: list[PatternNode], steps: tuple[Step, ...], parent: int | None) -> int:
    """Append the nodes of a path and of its binding branches; return the last step's number."""
    for step in steps:
        conditions = tuple(_conjuncts(step.conditions))
        plain = canonical(tuple(c for c in conditions if not _binds(c)))
        bare = Step(step.test, step.descendant, step.attribute, plain, derived=step.derived)
        nodes.append(PatternNode(bare, parent, step.variable))
        parent = len(nodes) - 1
        for condition in conditions:
            if isinstance(condition, Exists) and _binds(condition):
                _grow(nodes, condition.path.steps, parent)
    assert parent is not None, "a path of a block has at least one step"
    return parent


def _conjuncts(conditions: tuple[Condition, ...]) -> Iterator[Condition]:
    for condition in conditions:
        if isinstance(condition, And):
            yield from _conjuncts(condition.parts)
        else:
            yield condition


def _binds(condition: Condition) -> bool:
    """Return True if a condition binds a variable; those under OR and NOT never do."""
    match condition:
        case Exists(path):
            return any(
                step.variable is not None or any(map(_binds, step.conditions))
                for step in path.steps
            )
        case And(parts):
            return any(map(_binds, parts))
        case _:
            return False


def canonical(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Return the conditions in a form that equal ones share: nested, sorted, each once."""
    flat = (_canonical(condition) for condition in _conjuncts(conditions))
    distinct = {unparse(c): c for c in _conjuncts(tuple(flat)) if c != Exists(Path())}
    return tuple(distinct[text] for text in sorted(distinct))


def _canonical(condition: Condition) -> Condition:
    match condition:
        case Exists(path):
            return _nested(path, None)
        case Compare(path, operator, value, None):
            tail = Path((), path.text)
            return _nested(replace(path, text=None), Compare(tail, operator, value))
        case Compare(path) | TextMatch(_, path):
            return replace(condition, path=_canonical_path(path))
        case Residual():
            return condition
        case And(parts):
            return _connected(And, canonical(parts))
        case Or(parts):
            each = {unparse(c): c for c in (_connected(And, canonical((p,))) for p in parts)}
            return _connected(Or, tuple(each[text] for text in sorted(each)))
        case Not(part):
            return Not(_connected(And, canonical((part,))))


def _connected(
    connective: type[And[Condition]] | type[Or[Condition]], parts: tuple[Condition, ...]
) -> Condition:
    if not parts:
        return Exists(Path())
    return parts[0] if len(parts) == 1 else connective(parts)


def _nested(path: Path, last: Condition | None) -> Condition:
    """Return `a[b[last]]` for the path `a/b`, and for `.` the last condition itself."""
    if not path.steps:
        if path.text is not None:
            return Exists(path)
        return Exists(Path()) if last is None else last
    first, rest = path.steps[0], replace(path, steps=path.steps[1:])
    inner = _nested(rest, last)
    step = replace(first, conditions=canonical((*first.conditions, inner)), variable=None)
    return Exists(Path((step,)))


def _canonical_path(path: Path) -> Path:
    steps = tuple(
        replace(step, conditions=canonical(step.conditions), variable=None) for step in path.steps
    )
    return replace(path, steps=steps)


class _Blocks(dict[str, Block]):
    """Blocks by their definitions, each parsed once."""

    def __missing__(self, definition: str) -> Block:
        block = self[definition] = parse_block(definition, short=True)
        return block


def install_pairs(automaton: Automaton, pairs: Sequence[Pair]) -> None:
    """Install variable pairs in the stage-1 automaton; a known pair is installed anew."""
    blocks = _Blocks()
    places: dict[str, tuple[PatternPlace, str]] = {}  # with their streams
    # Before any place is looked up, as places leave with the last of their pairs.
    for pair in pairs:
        automaton.remove(pair.number)
    for number, first, second, valued in pairs:
        rest = second[len(first) :]
        goes_on = second.startswith(first) and (not rest or rest[0] == "/")
        known = places.get(first) if goes_on else None
        if known is None:
            block = parse_block(first, short=True)
            if not goes_on or block.steps[-1].derived is not None:
                automaton.add(number, block, blocks[second], valued)
                continue
            known = places[first] = automaton.place(block), block.stream
        upper, stream = known
        # A stream alone would be read as its root element.
        automaton.add_below(number, upper, blocks[stream + rest].steps if rest else (), valued)
