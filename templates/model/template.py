"""Query templates: the isomorphism classes of minors (Hong 2009, section 6.4.1).

The sides of a join are distinguished, pattern nodes are not named.  Instead
of a canonical form a template keeps the numbering of the first minor of its
class; a later minor finds its template among those with equal refined colours
by an explicit isomorphism.  Both the class and the search space are memoised
by the minor itself, so the thousandth query of a shape costs a look-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from templates.model.join_graph import JoinGraph

Colours = tuple[int, ...]
Adjacency = tuple[Mapping[int, tuple[str, ...]], ...]

TIES = 2_000  # embeddings tried between equal variables before the first one found is taken


@dataclass(frozen=True, slots=True)
class Template:
    """A class of isomorphic minors, numbered as its representative `graph`."""

    number: int
    graph: JoinGraph


@dataclass(slots=True)
class Templates:
    """All templates in use, found by minor."""

    _classes: dict[tuple[object, ...], list[Template]] = field(default_factory=dict)
    _by_minor: dict[JoinGraph, Template] = field(default_factory=dict)
    _next: int = 1

    def __iter__(self) -> Iterator[Template]:
        return (template for group in self._classes.values() for template in group)

    def restore(self, template: Template) -> None:
        """Add a template that is known from before, under the number that it had."""
        self._classes.setdefault(refined(template.graph).signature, []).append(template)
        self._by_minor[template.graph] = template
        self._next = max(self._next, template.number + 1)

    def of(self, minor: JoinGraph) -> Template:
        """Return the template of a minor, a new one if no known one is isomorphic."""
        known = self.find(minor)
        if known is None:
            known = Template(self._next, minor)
            self.restore(known)
        return known

    def find(self, minor: JoinGraph) -> Template | None:
        """Return the template of a minor, None if no known one is isomorphic."""
        known = self._by_minor.get(minor)
        if known is not None:
            return known
        for template in self._classes.get(refined(minor).signature, ()):
            if embedding(template.graph, minor, (0,) * len(minor.nodes), ties=0) is not None:
                self._by_minor[minor] = template
                return template
        return None

    def drop(self, template: Template) -> None:
        """Drop an unused template; its number may be assigned again after a restart."""
        self._classes[refined(template.graph).signature].remove(template)
        self._by_minor = {m: t for m, t in self._by_minor.items() if t is not template}


def embedding(
    template: JoinGraph, minor: JoinGraph, variables: Sequence[int], ties: int = TIES
) -> tuple[int, ...] | None:
    """Return which node of `minor` takes each position of `template`, or None.

    Of several ways (automorphisms) the one with the lexicographically
    smallest tuple of variables is taken, so that equal queries become equal
    rows whatever order they were written in.  Only the order of the variables
    matters, so the result for one order is cached.
    """
    places = {variable: place for place, variable in enumerate(sorted(set(variables)))}
    return _embedding(template, minor, tuple(map(places.__getitem__, variables)), ties)


@lru_cache(maxsize=65_536)
def _embedding(
    template: JoinGraph, minor: JoinGraph, variables: tuple[int, ...], ties: int
) -> tuple[int, ...] | None:
    wanted, offered = refined(template).colours, refined(minor).colours
    if sorted(wanted) != sorted(offered) or len(template.edges) != len(minor.edges):
        return None
    ours, theirs = adjacency(template), adjacency(minor)

    def fits(taken: tuple[int, ...], node: int) -> bool:
        """Return True if a node may take the next position."""
        at = len(taken)
        if node in taken or wanted[at] != offered[node]:
            return False
        parent = template.nodes[at].parent
        if (None if parent is None else taken[parent]) != minor.nodes[node].parent:
            return False
        return all(
            ours[at].get(earlier, ()) == theirs[node].get(other, ())
            for earlier, other in enumerate(taken)
        )

    def extended(taken: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the best completion of a partial embedding: depth first, variables in order."""
        nonlocal ties
        if len(taken) == len(template.nodes):
            return taken
        fitting = [node for node, _ in enumerate(minor.nodes) if fits(taken, node)]
        fitting.sort(key=variables.__getitem__)
        for _, equal in groupby(fitting, key=variables.__getitem__):
            best: tuple[int, ...] | None = None
            for node in equal:
                if best is not None:
                    ties -= 1
                    if ties < 0:
                        break
                found = extended((*taken, node))
                if found is not None and (best is None or key(found) < key(best)):
                    best = found
            if best is not None:
                return best
        return None

    def key(found: tuple[int, ...]) -> list[int]:
        return [variables[node] for node in found]

    return extended(())


@lru_cache(maxsize=4096)
def adjacency(graph: JoinGraph) -> Adjacency:
    """Return, for each node, its neighbours by comparison and the operators of those edges."""
    neighbours: tuple[dict[int, tuple[str, ...]], ...] = tuple({} for _ in graph.nodes)
    for edge in sorted(graph.edges, key=lambda e: e.operator):
        for one, other in ((edge.left, edge.right), (edge.right, edge.left)):
            neighbours[one][other] = (*neighbours[one].get(other, ()), edge.operator)
    return neighbours


class ColourRefinement(NamedTuple):
    """A colour for each node, which isomorphisms keep; isomorphic graphs have equal signatures."""

    colours: Colours
    signature: tuple[object, ...]


@lru_cache(maxsize=4096)
def refined(graph: JoinGraph) -> ColourRefinement:
    """Return the refinement of a graph (1-dimensional Weisfeiler-Leman)."""
    colours, signature = _rank([(n.side, n.output, n.parent is None) for n in graph.nodes])
    signatures = [signature]
    while True:
        finer, signature = _rank([_surroundings(graph, colours, i) for i in range(len(colours))])
        signatures.append(signature)
        if len(set(finer)) == len(set(colours)):
            return ColourRefinement(finer, tuple(signatures))
        colours = finer


def _surroundings(graph: JoinGraph, colours: Colours, number: int) -> tuple[object, ...]:
    parent = graph.nodes[number].parent
    children = sorted(colours[i] for i, n in enumerate(graph.nodes) if n.parent == number)
    edges = sorted((ops, colours[other]) for other, ops in adjacency(graph)[number].items())
    above = -1 if parent is None else colours[parent]
    return colours[number], above, tuple(children), tuple(edges)


def _rank(labels: list[tuple[object, ...]]) -> tuple[Colours, tuple[object, ...]]:
    """Number the labels by their order, which does not depend on how nodes are numbered."""
    ordered = sorted(set(labels), key=repr)
    rank = {label: number for number, label in enumerate(ordered)}
    return tuple(rank[label] for label in labels), tuple(sorted(map(repr, labels)))
