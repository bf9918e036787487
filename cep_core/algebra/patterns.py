"""Conditions of patterns, and which patterns are plain sequences.

SEQ(A1, .., An) within T (Wu, Diao and Rizvi 2006), for rows with intervals, is the pattern of a row
of each component with `e[i].t1 < e[i+1].t0` and `e[n].t1 - e[1].t1 < T`.  The strategies of SASE+
(Agrawal et al. 2008) are marks of its steps: skip till any match is `any`, skip till next match
`nearest` (the rows of the nearest epoch in which one can go on, whatever is between); strict and
partition contiguity have their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, get_args

from cep_core.algebra import expressions as ex
from cep_core.algebra.constructors import average_type, require_aggregable
from cep_core.algebra.nodes import Part, PatternMatch, Role, RunAggregate
from cep_core.algebra.pattern_tree import Chain, One
from cep_core.errors import Extent

MOST_COMPONENTS = 64
RUN_AGGREGATES: tuple[str, ...] = get_args(RunAggregate)
PREVIOUS: tuple[Role, ...] = ("previous", "previous_end")


def is_plain(node: PatternMatch) -> bool:
    """Return True for a plain sequence: single events with the mark `any`, without a policy."""
    steps = node.tree.parts if isinstance(node.tree, Chain) else (node.tree,)
    return (
        all(steps[place] in (One(place), One(place, "any")) for place in range(len(steps)))
        and node.rules.mark == "any"
        and node.rules.policy == "none"
        and not node.rules.simultaneous
        and node.rules.tests == ex.TRUE
        and all(part.role in ("value", "start", "first_end", "end") for part in node.parts)
        and not any(component.repeated for component in node.components)
    )


def conjuncts_of(predicate: ex.Expression) -> list[ex.Expression]:
    """Return the conditions that all have to hold, from left to right."""
    if isinstance(predicate, ex.And):
        return [part for item in predicate.items for part in conjuncts_of(item)]
    if isinstance(predicate, ex.Constant) and predicate.value is True:
        return []
    return [predicate]


def conjunction(conditions: Iterable[ex.Expression]) -> ex.Expression:
    """Return the conjunction of conditions, with the span of the first; TRUE without any."""
    found = [condition for condition in conditions if condition != ex.TRUE]
    if not found:
        return ex.TRUE
    return found[0] if len(found) == 1 else ex.And(tuple(found), span=found[0].span)


def parts_in(node: ex.Expression, parts: Sequence[Part]) -> list[Part]:
    """Return the parts that an expression reads."""
    return [parts[one.index] for one in ex.walk(node) if isinstance(one, ex.Column)]


class Conjunct(NamedTuple):
    """A condition of a conjunction, and the parts that it reads; a failed ``test`` ends a match."""

    node: ex.Expression
    parts: tuple[Part, ...]
    components: frozenset[int]
    test: bool

    @property
    def has_constants(self) -> bool:
        """True if the condition reads constants of a query."""
        return any(isinstance(node, ex.Parameter) for node in ex.walk(self.node))

    @property
    def lasting(self) -> tuple[Part, Part, ex.Expression] | None:
        """(start, end, T) if the condition is `end - start <= T`, else None.

        ``start`` is the part with the begin of one event, ``end`` that with the end of an event.
        """
        match self.node:
            case ex.Compare("<=", ex.Arithmetic("-", ex.Column(), ex.Column()), time):
                end, start, *_ = self.parts
                if start.role == "start" and end.role in ("end", "current_end"):
                    return start, end, time
            case _:
                pass
        return None


def conjuncts_in(
    predicate: ex.Expression, parts: Sequence[Part], *, test: bool = False
) -> list[Conjunct]:
    """Return the conjuncts of a predicate, whose columns are indexes into ``parts``.

    ``test``: they end a match in place of filtering.
    """
    found: list[Conjunct] = []
    for node in conjuncts_of(predicate):
        read = tuple(parts_in(node, parts))
        components = frozenset(part.component for part in read)
        found.append(Conjunct(node, read, components, test))
    return found


def is_of_neighbours(node: ex.Expression, parts: Sequence[Part], component: int) -> bool:
    """Return True if a condition compares an event of the run ``component`` with those before it.

    It is tested from the second event on (Agrawal et al. 2008).  False for one that
    handles null, or reads the number of the events before: it is tested with the first one as well.
    """
    read = [part for part in parts_in(node, parts) if part.component == component]
    before = [one for one in read if one.before or one.role in PREVIOUS]
    counts = any(one.before and one.role == "COUNT" for one in before)
    return bool(before) and not (counts or handles_null(node, lambda at: parts[at] in before))


def handles_null(node: ex.Expression, reads: Callable[[int], bool]) -> bool:
    """Return True if a condition has IS NULL, COALESCE or CASE of one of the columns that `reads`
    names.
    """
    return any(
        isinstance(one, ex.IsNull | ex.Coalesce | ex.Case)
        and any(isinstance(part, ex.Column) and reads(part.index) for part in ex.walk(one))
        for one in ex.walk(node)
    )


def aggregate_type(role: str, kind: type, span: Extent | None = None) -> type:
    """Return the type of an aggregate over a run (``role``, such as "SUM") or of an attribute.

    ``kind`` is the type of the attribute.  Raises AlgebraError, which marks ``span``, if the
    function cannot aggregate it.
    """
    require_aggregable(role, kind, span)
    return int if role == "COUNT" else average_type(kind) if role == "AVG" else kind
