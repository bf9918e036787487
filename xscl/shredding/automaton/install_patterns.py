"""Pairs of variables, as stage 2 knows them, asked of the automaton by their definitions.

A definition mostly goes on from that of the variable above; then only the rest of it is read, and
what many pairs go on from is read once.
"""

from __future__ import annotations

from collections.abc import Sequence

from templates.model.relations import Pair
from xscl.language.parser import parse_block
from xscl.language.syntax import Block
from xscl.shredding.automaton.automaton_states import Place
from xscl.shredding.automaton.nfa import Automaton


class _Blocks(dict[str, Block]):
    """Blocks by their definitions, each read once."""

    def __missing__(self, definition: str) -> Block:
        block = self[definition] = parse_block(definition, short=True)
        return block


def ask(automaton: Automaton, pairs: Sequence[Pair]) -> None:
    """Have the bindings of pairs of variables found; what was asked for is asked anew."""
    blocks = _Blocks()
    places: dict[str, Place] = {}
    for (
        pair
    ) in pairs:  # before any place is looked up, as places leave with the last of their pairs
        automaton.remove(pair.number)
    for pair in pairs:
        first, rest = blocks[pair.first], pair.second[len(pair.first) :]
        goes_on = pair.second.startswith(pair.first) and rest[:1] in ("", "/")
        if not goes_on or first.steps[-1].derived is not None:
            automaton.add(pair.number, first, blocks[pair.second], pair.valued)
            continue
        upper = places.get(pair.first)
        if upper is None:
            upper = places[pair.first] = automaton.place(first)
        # A stream alone would be read as its root element.
        steps = blocks[first.stream + rest].steps if rest else ()
        automaton.add_below(pair.number, upper, steps, pair.valued)
