"""The witnesses of composites: to stage 2 a composite is a document with a root and leaves.

A leaf is an operand over one of the composite's variables, as predicates above
it compare them.  The root is node 0; leaves are numbered from 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from templates.columns import table_of
from templates.model.relations import BINDINGS, TIMES, VALUES, Pair, Witnesses
from xscl.documents.composite_events import Composite, item_at
from xscl.language.parser import parse_operand
from xscl.language.scope import leaves
from xscl.language.syntax import Operand, VariablePath
from xscl.shredding.conditions.residual import texts_of
from xscl.shredding.nodes import DocumentTree

_DEFINITION = re.compile(r"#(-?\d+)(?:/(\d+) \| (.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Entry:
    pair: int
    position: int
    operand: Operand
    alone: bool  # both variables of the pair are one leaf
    constant: bool  # the operand has no variable


class Leaves:
    """Makes the witnesses of composites for the pairs of variables that joins need."""

    def __init__(self, tree: Callable[[int], DocumentTree]) -> None:
        self._tree = tree
        self.streams: dict[int, dict[int, _Entry]] = {}

    def add(self, pair: Pair) -> None:
        """Add a pair, whose bindings are then among the witnesses of its stream."""
        found = _DEFINITION.fullmatch(pair.second)
        assert found is not None
        assert found[2] is not None
        operand = parse_operand(found[3])
        constant = not any(isinstance(leaf, VariablePath) for leaf in leaves(operand))
        alone = pair.first == pair.second
        entry = _Entry(pair.number, int(found[2]), operand, alone, constant)
        self.streams.setdefault(int(found[1]), {})[pair.number] = entry

    def remove(self, pair: int) -> None:
        """Remove a pair by its number."""
        for stream, entries in list(self.streams.items()):
            entries.pop(pair, None)
            if not entries:
                del self.streams[stream]

    def witnesses(self, arrived: Sequence[tuple[int, int, Composite]]) -> Witnesses:
        """Return the witnesses of composites, each with its number and its stream.

        A composite that is in several streams has one row of times.
        """
        bindings: list[tuple[int, int, int, int, int]] = []
        values: dict[str, int] = {}
        documents: list[set[int]] = []
        for doc, stream, composite in arrived:
            made: dict[tuple[int, Operand], list[tuple[int, int]]] = {}
            for entry in self.streams.get(stream, {}).values():
                leaf = (entry.position, entry.operand)
                if leaf not in made:
                    made[leaf] = []
                    for text in self._texts(composite, entry):
                        row = values.setdefault(text, len(documents))
                        if row == len(documents):
                            documents.append(set())
                        documents[row].add(doc)
                        made[leaf].append((1 + sum(map(len, made.values())), row))
                for number, row in made[leaf]:
                    above = number if entry.alone else 0
                    bindings.append((doc, entry.pair, above, number, row))
        times = [
            (doc, one.start, one.ts, one.clock, one.rank, doc, one.first)
            for doc, one in sorted({doc: one for doc, _, one in arrived}.items())
        ]
        counts = [(text, len(documents[row])) for text, row in values.items()]
        return Witnesses(
            table_of(bindings, BINDINGS), table_of(times, TIMES), table_of(counts, VALUES)
        )

    def _texts(self, composite: Composite, entry: _Entry) -> list[str]:
        if entry.constant:
            return texts_of(entry.operand)("")
        item = item_at(composite, entry.position, self._tree)
        return [] if item is None else texts_of(entry.operand)(item)
