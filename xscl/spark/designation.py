"""The designated equality of a join: documents are divided by the values of its nodes.

Of the equalities of a row of R_T one is designated.  The two documents of each result have equal
values there, so they meet in the bucket of that value, and all else is tested there.  It is the
one that the fewest pairs of documents of a sample satisfy; without a sample, the first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from templates.model.relations import Pair
from templates.registry import UNDESIGNATED, Registry, RowOfRT
from xscl.documents.results import Subscription
from xscl.engine.state import EngineState
from xscl.language.normalform import AbsenceForm, Scan
from xscl.language.parser import parse_block
from xscl.language.syntax import And, Block, Comparison, Path, Predicate, VariablePath
from xscl.language.unparse import unparse
from xscl.planning.compile import CompiledJoin, compile_query
from xscl.shredding.arrivals import Text, compute_bindings
from xscl.shredding.automaton.nfa import Automaton
from xscl.spark.absences import EqualityAbsence

SampleTexts: TypeAlias = Callable[[], Iterable[Text]]
"""Returns documents that are like those to come; called only if a join has several equalities."""


def absence_of(state: EngineState, one: Subscription) -> EqualityAbsence | None:
    """Return a subscription as an absence that executors evaluate; None for any other."""
    if one.relational or one.template or one.publish is not None or one.distinct:
        return None  # results of a DISTINCT one are one match, and would be in several buckets
    query = compile_query(one.query)
    form = query.normal.form
    match form:
        case AbsenceForm(Scan(first), Scan(second), predicate) as form:
            pass
        case _:
            return None
    compared = []
    for names in _compared(predicate):
        by_block = {query.normal.places.get(name): name for name in names}
        if by_block.keys() != {first, second}:
            return None
        compared.append((by_block[first], by_block[second]))
    left, right = state.dataflow.subscribed.of(one).placed
    of_left, of_right = (
        _output_names(state.registry, join, placed)
        for join, placed in zip(query.joins, (left, right), strict=True)
    )
    return EqualityAbsence(
        key=one.key,
        number=one.number,
        left=left.qid,
        right=right.qid,
        lower=form.relation.lower,
        upper=form.relation.upper,
        pairs=form.otherwise,
        alone_left=form.alone[0],
        alone_right=form.alone[1],
        left_nodes=tuple(of_left.index(name) for name, _ in compared),
        right_nodes=tuple(of_right.index(name) for _, name in compared),
    )


def _compared(predicate: Predicate | None) -> Iterator[tuple[str, str]]:
    """Yield the variables of each equality; two empty names for any other predicate."""
    match predicate:
        case And(parts):
            for part in parts:
                yield from _compared(part)
        case Comparison("=", VariablePath(one, path), VariablePath(other, ending)) if (
            path == ending == Path()
        ):
            yield one, other
        case _:
            yield "", ""


def _output_names(registry: Registry, join: CompiledJoin, placed: RowOfRT) -> list[str | None]:
    """Return the variables of a row's results, in their order."""
    graph = registry.members[placed.template].template.graph
    ends = zip(graph.nodes, placed.order, strict=True)
    return [join.nodes[join.kept[at]].variable for node, at in ends if node.output]


def reason_against(state: EngineState, one: Subscription, *, forever: bool = False) -> str | None:
    """Return why a subscription cannot be evaluated on executors; None if it can.

    `forever` accepts a window INF, of which executors keep all documents.
    """
    if one.relational:
        return f"it is a query in {one.language.upper()}"
    if one.publish is not None:
        return "it publishes documents, which others read (PUBLISH)"
    if absence_of(state, one) is not None:
        return None
    registry = state.registry
    if not one.template:
        return (
            "it needs more than one join of two blocks: an operator over time (NEXT, FOLD, ELSE or"
            " NOT by more than equalities of variables or with DISTINCT, a calendar), a chain"
            " of joins, or a predicate that is no comparison of nodes"
        )
    if not registry.members[one.template].template.graph.two_sided:
        return "it joins nothing: it is a filter"
    return reason_against_row(registry, one.qid, forever=forever)


def reason_against_row(registry: Registry, qid: int, *, forever: bool = False) -> str | None:
    """Return why executors cannot evaluate a row of R_T; None if they can."""
    row = registry.row(qid)
    graph = registry.members[row.template].template.graph
    if any(registry.pairs.describe(pair).first.startswith("#") for pair in row.pairs):
        return "it joins the results of another join"
    if graph.text_joins:
        return "it compares texts by an index, such as contains() or a similarity"
    if not _usable(registry, qid):
        return "it has no equality between two nodes"
    if row.relation.window is None and not forever:
        return "its window is INF, so that executors would keep all documents"
    return None


def _usable(registry: Registry, qid: int) -> dict[int, tuple[str, str]]:
    """Return equalities that may be designated, by place, with both nodes' relaxed definitions.

    Both nodes are in results.  So a result has one value there, and is found in one bucket.
    """
    row = registry.row(qid)
    graph = registry.members[row.template].template.graph
    found = {}
    for place, (edge, ends) in enumerate(zip(graph.equalities, graph.value_joins, strict=True)):
        if edge.operator != "=" or not all(graph.nodes[n].output for n in (edge.left, edge.right)):
            continue
        left, right = (relaxed(registry.pairs.describe(row.pairs[end]).second) for end in ends)
        if left and right:
            found[place] = left, right
    return found


@lru_cache(maxsize=10_000)
def relaxed(definition: str) -> str:
    """Return the path of a definition without conditions; "" if it is no node of a document.

    It selects at least the nodes of the definition.
    """
    if definition.startswith("#"):
        return ""
    block = parse_block(definition)
    if block.is_calendar or block.steps[-1].derived is not None:
        return ""
    return unparse(Block(block.stream, tuple(replace(step, conditions=()) for step in block.steps)))


def designated(registry: Registry, qids: Iterable[int], sample: SampleTexts) -> dict[int, int]:
    """Return the designated equality of each row that has none yet (`Registry.designate`)."""
    usable = {qid: _usable(registry, qid) for qid in qids if registry.lead(qid) == UNDESIGNATED}
    several = [ends for found in usable.values() if len(found) > 1 for ends in found.values()]
    shares = _shares({path for ends in several for path in ends}, sample) if several else {}

    def share(ends: tuple[str, str]) -> float:
        """Return the share of pairs of nodes with equal values."""
        one, other = (shares.get(path, Counter()) for path in ends)
        equal = sum(count * other[value] for value, count in one.items())
        return equal / max(1, one.total() * other.total())

    return {
        qid: min(found, key=lambda place: (share(found[place]), place))
        for qid, found in usable.items()
        if found
    }


def _shares(paths: Iterable[str], sample: SampleTexts) -> Mapping[str, Counter[str]]:
    """Return the frequency of each value at each path in the documents of a sample."""
    automaton, numbered = Automaton(), dict(enumerate(sorted(paths), start=1))
    automaton.install([Pair(number, path, path, valued=True) for number, path in numbered.items()])
    found = compute_bindings(automaton, sample())
    values = found.values["strVal"].to_pylist()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    columns = (found.bindings[name].to_pylist() for name in ("pair", "value"))
    for pair, value in zip(*columns, strict=True):
        if value is not None:
            counts[numbered[pair]][values[value]] += 1
    return counts
