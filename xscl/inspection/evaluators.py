"""The evaluators of joins, for `explain`: stage 2 in the engine, or executors of its process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from templates.model.join_graph import LEFT, RIGHT
from templates.model.template import embedding
from templates.processor import SMALL_BATCH
from templates.registry.registry import UNDESIGNATED, Registry
from xscl.planning.compile import CompiledJoin

ReasonHere: TypeAlias = Callable[[int], str]
"""Returns why the engine evaluates a row of R_T, although there are executors."""


@dataclass(frozen=True, slots=True)
class Place:
    """The evaluator of a join: executors by the equality `lead`, or the engine for a `reason`."""

    lead: str = ""
    reason: str = ""


def places_of(
    registry: Registry,
    joins: Sequence[CompiledJoin],
    qids: Sequence[int],
    reason_here: ReasonHere,
) -> list[Place]:
    """Return the places of joins, which have these rows of R_T; executors are there."""
    if len(joins) != len(qids):  # its query is refused
        return [Place() for _ in joins]
    return [
        Place(reason=reason_here(qid) if join.reduced.two_sided else "")
        if registry.lead(qid) == UNDESIGNATED
        else Place(lead=_lead(registry, join, qid))
        for join, qid in zip(joins, qids, strict=True)
    ]


def _lead(registry: Registry, join: CompiledJoin, qid: int) -> str:
    """Return the designated equality of a row in the variables of a join."""
    row = registry.row(qid)
    graph = registry.members[row.template].template.graph
    ends = graph.value_joins[registry.lead(qid)]
    wanted = {registry.pairs.describe(row.pairs[end]).second for end in ends}
    nodes = [*join.block_definitions(LEFT), *join.block_definitions(RIGHT)]
    edge = next(
        edge for edge in join.reduced.equalities if {nodes[edge.left], nodes[edge.right]} == wanted
    )
    return " = ".join(join.label(join.kept[at]) for at in (edge.left, edge.right))


def evaluators(
    registry: Registry | None, joins: Sequence[CompiledJoin], places: Sequence[Place]
) -> str:
    """Return the evaluators of a filter or join; template numbers only if all may be seen."""
    both = list(zip(joins, places, strict=True))
    found = [
        f"executors, by the equality {place.lead}"
        f" ({', '.join(['stage 2', *_templates(registry, [join])])})"
        for join, place in both
        if place.lead
    ]
    here = [join for join, place in both if not place.lead]
    if here:
        where = ", ".join([*_templates(registry, here), f"DuckDB above {SMALL_BATCH} documents"])
        found.append(f"stage 2 ({where})")
    tested = any(join.residual is not None for join in joins)
    return f"{'; '.join(found)}{', Refine (residual test)' if tested else ''}"


def reasons(places: Iterable[Place]) -> Iterator[str]:
    """Yield a line for each reason why executors do not evaluate a join."""
    for reason in dict.fromkeys(place.reason for place in places if place.reason):
        yield f"  not on executors: {reason}"


def _templates(registry: Registry | None, joins: Iterable[CompiledJoin]) -> list[str]:
    numbers = [] if registry is None else [known_template(registry, join) for join in joins]
    return [f"template {number}" for number in dict.fromkeys(numbers) if number]


def known_template(registry: Registry, join: CompiledJoin) -> int | None:
    """Return the number of the template of a join; None if it is not in use."""
    minor = join.reduced
    for number, members in registry.members.items():
        graph = members.template.graph
        same_size = len(graph.nodes) == len(minor.nodes)
        if same_size and embedding(graph, minor, (0,) * len(minor.nodes)) is not None:
            return number
    return None
