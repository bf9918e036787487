r"""Placement: on which node each operator of a query runs.

Schultz-Møller, Migliavacca and Pietzuch 2009, sections 4.2 and 4.4.  Operators are placed greedily,
those below first, where they cost least; the largest part of a query that is placed already is
reused.  The cost of an operator on a node has three terms: the network traffic of its inputs, its
own processor time unless the node runs it already, and the load of the node.

Differs from section 4.2: δ is printed as 1 for the same node; it has to be 1 for different ones,
because the text makes distant inputs expensive.  Nodes are simulated: their load is computed from
the cost model, in events handled in a second; nothing is sent anywhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from cep_core.algebra import Chain, Choice, One
from cep_core.algebra import pattern_tree as algebra
from cep_core.rewrite.cost import estimate

Policy: TypeAlias = Literal["round robin", "greedy", "reuse"]


@dataclass(frozen=True, slots=True)
class Tree:
    """An abstract operator tree: equal trees detect the same, whatever the aliases.

    ``rate`` is the events that it puts out in a second, ``cpu`` those that its root handles.
    """

    kind: str
    about: Hashable
    inputs: tuple[Tree, ...]
    rate: float = field(compare=False)
    cpu: float = field(compare=False)

    @property
    def is_source(self) -> bool:
        """True for a source stream, which runs on no node."""
        return self.kind == "source"

    def operators(self) -> Iterator[Tree]:
        """Yield the operators of the tree, those below first."""
        for one in self.inputs:
            yield from one.operators()
        if not self.is_source:
            yield self


def tree_of(
    pattern: algebra.PatternTree, streams: Sequence[str], rates: Mapping[str, float]
) -> Tree:
    """Return the operator tree of a pattern over the streams of its components."""
    found = estimate(pattern, [rates[one] for one in streams])
    if found is None:
        raise ValueError("the pattern has no cost: an iteration, or a rate that is not known")
    match pattern:
        case One(component):
            return Tree("source", streams[component], (), found.rate, 0.0)
        case Chain(parts) | Choice(parts):
            inputs = tuple([tree_of(part, streams, rates) for part in parts])
            kind = "next" if isinstance(pattern, Chain) else "union"
            return Tree(kind, None, inputs, found.rate, found.cost - sum(map(_total, inputs)))
        case _:
            raise AssertionError("a pattern with a cost is of sequences and unions")


def _total(tree: Tree) -> float:
    return tree.cpu + sum(map(_total, tree.inputs))


class Cluster:
    """Nodes, the operators that run on them, and what that costs each node.

    A node handles the events of its operators, and each event that it receives from another node
    (or from outside) or sends to one costs ``network`` more.
    """

    def __init__(self, nodes: int, policy: Policy = "reuse", network: float = 1.0) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster has at least one node, not {nodes}")
        self.load = [0.0] * nodes
        self.deployed: dict[Tree, int] = {}  # where the first instance of an operator runs
        self.queries = 0
        self._policy = policy
        self._network = network
        self._next = 0
        self._received: set[tuple[Tree, int]] = set()

    def deploy(self, tree: Tree) -> dict[Tree, int]:
        """Place a query; return the node of each of its operators, reused ones included."""
        self.queries += 1
        placed: dict[Tree, int] = {}
        self._place(tree, placed)
        node = placed.get(tree)
        if node is not None:
            self.load[node] += self._network * tree.rate  # to the sink
        return placed

    def _place(self, tree: Tree, placed: dict[Tree, int]) -> None:
        if tree.is_source or tree in placed:
            return
        if self._policy == "reuse" and tree in self.deployed:
            placed[tree] = self.deployed[tree]
            return
        for one in tree.inputs:
            self._place(one, placed)
        node = self._chosen(tree, placed)
        placed[tree] = node
        self.deployed.setdefault(tree, node)
        self.load[node] += tree.cpu
        for one in tree.inputs:
            self._connect(one, placed.get(one), node)

    def _chosen(self, tree: Tree, placed: dict[Tree, int]) -> int:
        """Return where an operator costs least; of equal nodes the first.

        Only the nodes of its inputs are cheaper than their load says, so the others need no look
        but for the one with the least load.
        """
        if self._policy == "round robin":
            self._next += 1
            return (self._next - 1) % len(self.load)
        near = {placed[one] for one in tree.inputs if one in placed}
        near |= {self.load.index(min(self.load))}
        if tree in self.deployed:
            near.add(self.deployed[tree])
        return min(sorted(near), key=lambda node: self.cost(tree, node, placed))

    def cost(self, tree: Tree, node: int, placed: dict[Tree, int]) -> float:
        """Return the cost of an operator on a node: network, processor time, other load."""
        distant = [one for one in tree.inputs if one in placed and placed[one] != node]
        has = self._policy == "reuse" and self.deployed.get(tree) == node
        own = 0.0 if has else tree.cpu
        return sum(one.rate for one in distant) + own + self.load[node]

    def _connect(self, source: Tree, origin: int | None, node: int) -> None:
        """Route the events of an operator or source to a node; with reuse, only once."""
        if origin == node:
            return
        if self._policy == "reuse":
            if (source, node) in self._received:
                return
            self._received.add((source, node))
        self.load[node] += self._network * source.rate
        if origin is not None:
            self.load[origin] += self._network * source.rate


def supported(trees: Iterable[Tree], nodes: int, policy: Policy, capacity: float) -> int:
    """Count the queries that nodes of a capacity carry, in order, before one is overloaded.

    Trees are taken from the iterable only as long as no node is.
    """
    cluster = Cluster(nodes, policy)
    for tree in trees:
        cluster.deploy(tree)
        if max(cluster.load) > capacity:
            return cluster.queries - 1
    return cluster.queries
