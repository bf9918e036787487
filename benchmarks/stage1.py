"""`stage1`: blocks over single documents, by the shared index against XPath one by one.

YFilter's experiments (Diao and others 2003) with value predicates: 1 ... 100,000
distinct blocks of several mixes (`blocks`) on feed items and on auctions.  The
rate is from the bytes of documents to the columns of their witnesses, on one
core.  No document comes twice.

The baseline is lxml's XPath, compiled, every block on its own, on documents that
are parsed once: a sample of blocks on a sample of documents, scaled.  The results
of both are compared before any time is measured.

`idle` blocks match nothing: their number should hardly matter.  `one more` is a
block that is added to the others, with the next document after it.
"""

from __future__ import annotations

import gc
import random
import statistics
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import Any

from lxml import etree

from benchmarks.auctions import auctions
from benchmarks.blocks import AUCTIONS, EXSLT, ITEMS, PREFIXES, Asked
from benchmarks.feed_items import Item, items
from benchmarks.harness import (
    REPEATS,
    Options,
    Row,
    Stages,
    Value,
    growth_row,
    interleaved,
    require_equal,
    seconds,
    timed_stages,
)
from feeds.documents import Document
from feeds.xml.xmlparse import parse
from templates.model.relations import Pair
from xscl.gc_control import paused
from xscl.language.unparse import unparse
from xscl.shredding.arrivals import RemoteBindings, compute_bindings, texts_of
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.batch import shape, shred
from xscl.shredding.batch.known_markup import MarkupCache, ReadDocument
from xscl.shredding.nodes import AttributeNode, number_nodes

NAME = "stage1"
STREAM = "feed"
SEED = 2004
SAMPLED_BLOCKS, SAMPLED_DOCUMENTS = 200, 40  # on which XPath is tried
ONE_BY_ONE = 51  # blocks that come, and go, one by one

STAGES = {
    "parse": (MarkupCache, "read"),
    "shape": (shape.DocumentShapes, "shape"),
    "index": (shred.ShapeBatch, "find"),
    "texts": (shred.ShapeBatch, "texts"),
    "rows": (shred, "cached_rows"),
    "tables and other": (shred.WitnessColumns, "tables"),
    "nodes and other": (shred.WitnessColumns, "add"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of a run: numbers of blocks, documents of one measurement."""

    counts: tuple[int, ...]
    items: int
    auctions: int
    measured: int  # blocks of which the memory is measured


QUICK = Plan((10, 1_000, 10_000), 400, 60, 2_000)
FULL = Plan((1, 10, 100, 1_000, 10_000, 100_000), 3_000, 400, 100_000)


def run(options: Options) -> Iterator[Row]:
    """Yield rates, ratios and growth for each mix, and the cost of one more block."""
    plan = QUICK if options.quick else FULL
    for name in (*ITEMS, *AUCTIONS):
        workload = Workload(name, plan)
        yield from _rates(workload, plan, options)
        yield from _idle(workload, plan)
        if name in ("channel and word", "auction values"):
            yield from _one_more(workload, plan.counts[-1])
            yield _memory(workload, plan.measured)


class Workload:
    """A mix of blocks, and an endless supply of documents for it."""

    def __init__(self, name: str, plan: Plan) -> None:
        self.name = name
        if name in AUCTIONS:
            self.mix = AUCTIONS[name]
            self.batch = plan.auctions
            self._documents: Iterator[Document]
            made = enumerate(auctions(1_000_000, SEED))
            self._documents = (Document(STREAM, f"a{number}", number, xml) for number, xml in made)
        else:
            self.mix, writer = ITEMS[name]
            self.batch = plan.items
            self._documents = map(writer, _stream(4 * self.batch))

    def next(self, number: int) -> list[Document]:
        """Return the next documents."""
        return list(islice(self._documents, number))

    def side(self, blocks: int, idle: bool = False) -> Side:
        """Return an automaton with some blocks of the mix."""
        return Side(self.mix.blocks(blocks, idle))

    def parameters(self, blocks: int, variant: str) -> dict[str, Value]:
        """Return the identifying columns of a row."""
        where: dict[str, Value] = {"scope": "stage1", "storage": "memory"}
        return {"mix": self.name, "variant": variant, "blocks": blocks, **where}


def _stream(size: int) -> Iterator[Item]:
    for seed in count(SEED):
        yield from items(size, seed)


class Side:
    """An automaton with some blocks."""

    def __init__(self, blocks: Sequence[Asked]) -> None:
        self.blocks = blocks
        self.automaton = Automaton()
        for number in range(len(blocks)):
            self.add(number)

    def add(self, number: int) -> None:
        """Add a block."""
        first, second = map(unparse, self.blocks[number].pair(STREAM))
        self.automaton.install([Pair(number, first, second, valued=True)])

    def shred(self, documents: Sequence[Document]) -> RemoteBindings:
        """Return the witnesses of documents, from their bytes on."""
        return compute_bindings(self.automaton, texts_of(documents))

    def shred_parsed(self, roots: Sequence[etree._Element]) -> None:
        """Find the witnesses of parsed documents."""
        with paused():
            columns = shred.WitnessColumns(self.automaton)
            for doc, root in enumerate(roots):
                columns.add(doc, (STREAM,), ReadDocument(b"", root))
            columns.tables()


# -- The baseline --------------------------------------------------------------------------


class OneByOne:
    """XPath expressions for some blocks of a side, scaled to all of them."""

    def __init__(self, side: Side) -> None:
        chosen = random.Random(SEED).sample(
            range(len(side.blocks)), min(SAMPLED_BLOCKS, len(side.blocks))
        )
        self.expressions = {
            number: etree.XPath(side.blocks[number].xpath(), namespaces={**PREFIXES, **EXSLT})
            for number in chosen
        }
        self.scale = len(side.blocks) / len(chosen)

    def try_all(self, roots: Sequence[etree._Element]) -> float:
        """Return the seconds for all blocks on a document."""
        expressions = list(self.expressions.values())

        def try_each() -> None:
            for root in roots:
                for expression in expressions:
                    expression(root)

        return seconds(try_each) * self.scale / len(roots)

    def found(self, root: etree._Element) -> Iterator[tuple[int, int]]:
        """Yield blocks and the numbers of the nodes that they select."""
        numbers: dict[object, int] = {}
        for number, item in enumerate(number_nodes(root).items):
            key = (item.owner, item.name) if isinstance(item, AttributeNode) else item
            numbers[key] = number
        for block, expression in self.expressions.items():
            selected: Any = expression(root)  # elements, and strings for attributes
            for node in selected:
                key = (
                    node if isinstance(node, etree._Element) else (node.getparent(), node.attrname)
                )
                yield block, numbers[key]


def verify(side: Side, documents: Sequence[Document]) -> int:
    """Return the number of nodes that a sample of blocks selects; raises ResultsDiffer if wrong."""
    one_by_one = OneByOne(side)
    expected = [
        (doc, *found)
        for doc, document in enumerate(documents)
        for found in one_by_one.found(parse(document.xml))
    ]
    rows = side.shred(documents).bindings.select(["doc", "pair", "node2"]).to_pydict()
    found = {row for row in zip(*rows.values(), strict=True) if row[1] in one_by_one.expressions}
    return require_equal(found, expected, "nodes of sampled blocks")


# -- Measuring -----------------------------------------------------------------------------


def _rates(workload: Workload, plan: Plan, options: Options) -> Iterator[Row]:
    """Yield a row for each number of blocks, and the growth."""
    sides = {blocks: workload.side(blocks) for blocks in plan.counts}
    selected = {n: verify(s, workload.next(SAMPLED_DOCUMENTS)) for n, s in sides.items()}
    matching = {n: _warm(s, workload.next(workload.batch)) for n, s in sides.items()}
    batches = [workload.next(workload.batch) for _ in range(REPEATS)]
    timed: dict[str, Callable[[], float]] = {}
    for blocks, side in sides.items():
        timed[f"bytes {blocks}"] = partial(_from_bytes, side, iter(batches))
        timed[f"parsed {blocks}"] = partial(_parsed, side, iter(batches))
        timed[f"xpath {blocks}"] = partial(_tried, OneByOne(side), batches[0])
    spent = interleaved(timed)
    for blocks, side in sides.items():
        yield Row(
            NAME,
            workload.parameters(blocks, "matching"),
            {
                "items_per_s": 1 / spent[f"bytes {blocks}"],
                "ratio": spent[f"xpath {blocks}"] / spent[f"parsed {blocks}"],
                "milliseconds": spent[f"bytes {blocks}"] * 1e3,
                "blocks_per_item": matching[blocks],
                "matches": selected[blocks],
            },
        )
        if options.profile:
            yield _profile(workload, side)
    costs = [spent[f"bytes {blocks}"] for blocks in plan.counts]
    parameters = workload.parameters(plan.counts[-1], "matching")
    yield growth_row(NAME, parameters, plan.counts, costs, "blocks")


def _warm(side: Side, documents: Sequence[Document]) -> float:
    """Return the mean number of blocks that match a document."""
    rows = side.shred(documents).bindings.select(["doc", "pair"]).to_pydict()
    return len(set(zip(rows["doc"], rows["pair"], strict=True))) / len(documents)


def _from_bytes(side: Side, batches: Iterator[Sequence[Document]]) -> float:
    documents = next(batches)
    return seconds(lambda: side.shred(documents)) / len(documents)


def _parsed(side: Side, batches: Iterator[Sequence[Document]]) -> float:
    roots = [parse(document.xml) for document in next(batches)]
    return seconds(lambda: side.shred_parsed(roots)) / len(roots)


def _tried(one_by_one: OneByOne, documents: Sequence[Document]) -> float:
    return one_by_one.try_all([parse(d.xml) for d in documents[:SAMPLED_DOCUMENTS]])


def _profile(workload: Workload, side: Side) -> Row:
    """Return the shares of time by stage."""
    stages, documents = Stages(), workload.next(workload.batch)
    with timed_stages(stages, STAGES):
        side.shred(documents)
    parameters = workload.parameters(len(side.blocks), "matching")
    return Row(NAME, parameters | {"profile": "share of time by stage"}, stages.shares())


def _idle(workload: Workload, plan: Plan) -> Iterator[Row]:
    """Yield the rates with few and with many blocks that match nothing."""
    few, many = (workload.side(number, idle=True) for number in (10, plan.counts[-1]))
    for side in (few, many):
        matching = _warm(side, workload.next(workload.batch))
        assert not matching, "idle blocks match nothing"
    batches = [workload.next(workload.batch) for _ in range(REPEATS)]
    spent = interleaved(
        {
            "few": partial(_from_bytes, few, iter(batches)),
            "many": partial(_from_bytes, many, iter(batches)),
        }
    )
    for name, side in (("few", few), ("many", many)):
        yield Row(
            NAME,
            workload.parameters(len(side.blocks), "idle"),
            {"items_per_s": 1 / spent[name], "ratio": spent["few"] / spent[name]},
        )


def _one_more(workload: Workload, blocks: int) -> Iterator[Row]:
    """Yield the times of adding and removing a block, and of the next document."""
    side = Side(workload.mix.blocks(blocks + ONE_BY_ONE))
    for number in range(blocks, blocks + ONE_BY_ONE):
        side.automaton.remove(number)
    side.shred(workload.next(workload.batch))
    spent: dict[str, list[float]] = {"add": [], "next document": [], "document": [], "remove": []}
    for number in range(blocks, blocks + ONE_BY_ONE):
        first, second = ([document] for document in workload.next(2))
        spent["add"].append(seconds(partial(side.add, number)))
        spent["next document"].append(seconds(partial(side.shred, first)))
        spent["document"].append(seconds(partial(side.shred, second)))
    for number in range(blocks, blocks + ONE_BY_ONE):
        spent["remove"].append(seconds(partial(side.automaton.remove, number)))
    for name, times in spent.items():
        figures: dict[str, Value] = {
            "p50_ms": statistics.median(times) * 1e3,
            "p95_ms": statistics.quantiles(times, n=20)[-1] * 1e3,
        }
        yield Row(NAME, workload.parameters(blocks, f"one more: {name}"), figures)


def _memory(workload: Workload, blocks: int) -> Row:
    """Return the memory of the automaton for each block."""
    gc.collect()
    tracemalloc.start()
    try:
        automaton = workload.side(blocks).automaton
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return Row(NAME, workload.parameters(blocks, "memory"), {"bytes": used / len(automaton)})
