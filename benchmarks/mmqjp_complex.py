"""`mmqjp-complex`: Figures 6.11 to 6.13 of Hong 2009, two documents of three levels.

The root and the four inner nodes have four children each: 16 leaves.  A query
has up to K = 4 value joins, and the inner nodes above its leaves are bound, too.
The number of queries is varied first, then K, then the Zipf parameter.

The paper counts 2, 6, 20 and 39 templates for K = 2, 3, 4 and 5 (6 to 22 for 10
to 100,000 queries).  Here the sides of a join are distinguished; `templates_merged`
counts a template and its mirror image as one.  Rare templates depend on chance,
so the counts are medians of several seeds, with the minimum and the maximum.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator

from benchmarks.harness import Options, Row, Value, values
from benchmarks.mmqjp import Schema, random_queries, reduced_graph
from benchmarks.mmqjp_points import QUERIES, SEED, ZIPF, Experiment
from templates import Edge, JoinGraph, Node
from templates.model.join_graph import LEFT
from templates.template import Templates

MOST_JOINS = 4
BRANCHING = 4
SEEDS, QUICK_SEEDS = 15, 3  # for counting templates
SWEEP_JOINS = (2, 3, 4, 5)
PAPER = {2: 2, 3: 6, 4: 20, 5: 39}
EXPECTED = {2: (2, 2), 3: (7, 6), 4: (29, 20), 5: (62, 45)}  # and with mirror images merged


def three_levels(branching: int = BRANCHING) -> Schema:
    """Return a schema whose root and inner nodes have so many children."""
    parents: list[int | None] = [None]
    for _ in range(branching):
        inner = len(parents)
        parents += [0, *([inner] * branching)]
    return Schema(tuple(parents))


EXPERIMENT = Experiment(
    "mmqjp-complex",
    figures=("6.11", "6.12", "6.13"),
    varied="joins",
    most=MOST_JOINS,
    sweep=SWEEP_JOINS,
    schema=lambda joins: three_levels(),
    quick_sample=20,
)


def run(options: Options) -> Iterator[Row]:
    """Yield the numbers of templates, then the points of the figures."""
    seeds = range(SEED, SEED + (QUICK_SEEDS if options.quick else SEEDS))
    for most in SWEEP_JOINS:
        yield count_templates(QUERIES, most, ZIPF, seeds)
    yield from EXPERIMENT.run(options)


# -- Templates -------------------------------------------------------------------------------


def count_templates(count: int, most: int, zipf: float, seeds: Iterable[int]) -> Row:
    """Return the number of templates of random queries, beside the paper's number."""
    schema = three_levels()
    found = [
        found_templates(
            reduced_graph(schema, query)[0]
            for query in random_queries(schema.leaves, count, zipf, most, seed)
        )
        for seed in seeds
    ]
    apart, merged = zip(*found, strict=True)
    expected = EXPECTED.get(most, (None, None))
    parameters = values(queries=count, joins=most, zipf=zipf, seeds=len(found))
    figures: dict[str, Value] = {
        "templates": int(statistics.median_low(apart)),
        "templates_least": min(apart),
        "templates_most": max(apart),
        "templates_expected": expected[0],
        "templates_merged": int(statistics.median_low(merged)),
        "templates_merged_least": min(merged),
        "templates_merged_most": max(merged),
        "templates_merged_expected": expected[1],
        "templates_in_the_paper": PAPER.get(most),
    }
    return Row(EXPERIMENT.name, parameters, figures)


def found_templates(graphs: Iterable[JoinGraph]) -> tuple[int, int]:
    """Return the number of templates of some minors, and that with mirror images merged."""
    templates = Templates()
    found = {templates.of(graph).number: graph for graph in graphs}
    merged = {min(number, templates.of(mirror(graph)).number) for number, graph in found.items()}
    return len(found), len(merged)


def mirror(graph: JoinGraph) -> JoinGraph:
    """Return a join graph with its sides exchanged."""
    order = sorted(range(len(graph.nodes)), key=lambda n: graph.nodes[n].side == LEFT)
    place = {old: new for new, old in enumerate(order)}
    nodes = []
    for old in order:
        node = graph.nodes[old]
        above = None if node.parent is None else place[node.parent]
        nodes.append(Node(1 - node.side, above, node.output))
    edges = [Edge(place[e.right], place[e.left], e.operator) for e in graph.edges]
    return JoinGraph(tuple(nodes), tuple(sorted(edges, key=lambda e: (e.left, e.right))))
