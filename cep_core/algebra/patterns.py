"""Sequences and negation, the algebra of SASE (Wu, Diao and Rizvi 2006), well-formed.

A `SequenceScan` is SEQ with WITHIN and the positive part of WHERE, a `Negation` SEQ_WITHOUT with
the negative part; what is below and above them is selection, union and projection as anywhere.

SEQ(A1, .., An) within T, in epochs and for rows with intervals: one row of each component with
`e[i].t1 < e[i+1].t0` and `e[n].t1 - e[1].t1 < T`.  Which of them are results the strategy says:

- *any*: all of them (section 2.2.2 of the paper; skip till any match).
- *next*: from a row on, the rows of the nearest epoch in which one can go on, whatever is between
  (skip till next match; without runs it is the left-deep `;`).
- *strict*: rows of the next epoch in which any input has a row.
- *partition*: the same among the rows with equal values of the partition's attributes.

A component may be a run of one or more rows (Kleene plus): after each of them the run may take a
row more or the next component may follow.  The last three strategies and runs are those of SASE+
(Agrawal et al. 2008).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import get_args

from cep_core.algebra.expressions import (
    FUNCTIONS,
    TRUE,
    And,
    Case,
    Coalesce,
    Column,
    Constant,
    Duration,
    Expression,
    IsNull,
    walk,
)
from cep_core.algebra.nodes import (
    Component,
    Negation,
    NegativeComponent,
    Node,
    Part,
    Role,
    RunAggregate,
    SequenceScan,
    Strategy,
)
from cep_core.algebra.schemas import (
    Functions,
    require,
    require_aggregable,
    require_window,
    schema_of,
)
from cep_core.errors import AlgebraError, Span, TypeFault

MOST_COMPONENTS = 64
"""Components of a sequence: the search nests a loop for each of them."""
RUN_AGGREGATES: tuple[str, ...] = get_args(RunAggregate)
PREVIOUS: tuple[Role, ...] = ("previous", "previous_end")
_EACH = ("current", "previous")  # what conditions on each row of a run read


def sequence_scan(
    inputs: Sequence[Node],
    components: Sequence[Component],
    parts: Sequence[Part],
    names: Sequence[str],
    predicate: Expression,
    window: Expression | None = None,
    strategy: Strategy = "any",
    partition: Sequence[tuple[int, ...] | None] = (),
    functions: Functions = FUNCTIONS,
    span: Span | None = None,
) -> SequenceScan:
    """Return SEQ; ``names`` are those of the first parts, which are put out."""
    if strategy not in get_args(Strategy):
        raise AlgebraError(f"there is no strategy {strategy}", span=span)
    if not components:
        raise AlgebraError("a sequence has at least one component", span=span)
    if len(components) > MOST_COMPONENTS:
        raise AlgebraError(
            f"a sequence has at most {MOST_COMPONENTS} components, not {len(components)}", span=span
        )
    for component in components:
        _require_place(component.input, len(inputs), "input", span)
    kinds = tuple([part_type(part, components, inputs, span) for part in parts])
    if len(names) > len(parts):
        raise AlgebraError("a sequence puts out more than it has", span=span)
    for part in parts[: len(names)]:
        if part.role in _EACH or part.before:
            raise AlgebraError("a result has no part of each row of a run", span=span)
    require(predicate, {2: kinds}, functions)
    for conjunct in conjuncts_of(predicate):
        _require_tested(conjunct, parts)
    if window is not None:
        require_window(window, functions)
    places = tuple(partition) or (None,) * len(inputs)
    _require_partition(places, inputs, strategy, span)
    schema = schema_of(names, kinds[: len(names)], span)
    return SequenceScan(
        *(tuple(inputs), tuple(components), tuple(parts), predicate, window),
        *(strategy, places, schema),
    )


def negation(
    source: Node,
    inputs: Sequence[Node],
    negatives: Sequence[NegativeComponent],
    first: int,
    functions: Functions = FUNCTIONS,
    span: Span | None = None,
) -> Negation:
    """Return SEQ_WITHOUT over a sequence that puts out the times of its parts, in its window."""
    if not isinstance(source, SequenceScan):
        raise AlgebraError("a negation is over a sequence", span=span)
    if not negatives or len(inputs) != len(negatives):
        raise AlgebraError("a negation has one input for each negative", span=span)
    single = not source.components[0].repeated
    _require_time(source, first, ("first_end", "end") if single else ("first_end",), span)
    if source.parts[first].component != 0:
        raise AlgebraError("a window begins with the first component", span=span)
    for node, one in zip(inputs, negatives, strict=True):
        require(one.predicate, {1: source.schema.types, 2: node.schema.types}, functions)
        for column, role in ((one.after, "end"), (one.before, "start")):
            if column is not None:
                _require_time(source, column, (role,), span)
        if (one.after is None or one.before is None) and source.window is None:
            raise AlgebraError(
                "what is negated at the start or end of a sequence needs a window",
                hint="add WITHIN and a duration",
                span=span,
            )
    return Negation(source, tuple(inputs), tuple(negatives), first, source.window, source.schema)


def _require_time(
    source: SequenceScan, column: int, roles: tuple[str, ...], span: Span | None
) -> None:
    _require_place(column, len(source.schema), "column", span)
    role = source.parts[column].role
    if role not in roles:
        raise AlgebraError(f"the {role} of a part is not its {' or '.join(roles)}", span=span)


def conjuncts_of(predicate: Expression) -> list[Expression]:
    """Return the conditions that all have to hold, from left to right."""
    if isinstance(predicate, And):
        return [part for item in predicate.items for part in conjuncts_of(item)]
    if isinstance(predicate, Constant) and predicate.value is True:
        return []
    return [predicate]


def conjunction(conditions: Iterable[Expression]) -> Expression:
    """Return the conjunction of conditions, at the place of the first; TRUE of none."""
    found = [one for one in conditions if one != TRUE]
    if not found:
        return TRUE
    return found[0] if len(found) == 1 else And(tuple(found), span=found[0].span)


def parts_in(node: Expression, parts: Sequence[Part]) -> list[Part]:
    """Return the parts that an expression reads."""
    return [parts[one.index] for one in walk(node) if isinstance(one, Column)]


def is_of_neighbours(node: Expression, parts: Sequence[Part], component: int) -> bool:
    """Return True if a condition reads what is before an event of a run, and says of nothing more.

    It is tested from the second event on (Agrawal et al. 2008).  One that handles null, or reads
    the number of the events before, is tested with the first event as well.
    """
    read = [part for part in parts_in(node, parts) if part.component == component]
    before = [one for one in read if one.before or one.role in PREVIOUS]
    counts = any(one.before and one.role == "COUNT" for one in before)
    return bool(before) and not (counts or handles_null(node, lambda at: parts[at] in before))


def handles_null(node: Expression, reads: Callable[[int], bool]) -> bool:
    """Return True if a condition says what holds where some columns are null."""
    return any(
        isinstance(one, IsNull | Coalesce | Case)
        and any(isinstance(part, Column) and reads(part.index) for part in walk(one))
        for one in walk(node)
    )


def part_type(
    part: Part, components: Sequence[Component], inputs: Sequence[Node], span: Span | None = None
) -> type:
    """Return the type of a part; raises AlgebraError if there is no such part."""
    _require_place(part.component, len(components), "component", span)
    component = components[part.component]
    role, index = part.role, part.index
    if role in ("start", "first_end", "end"):
        return int
    if component.repeated is (role == "value"):
        what = "a run" if component.repeated else "a single row"
        raise AlgebraError(f"{what} has no {role}", span=span)
    if part.before and role not in RUN_AGGREGATES:
        raise AlgebraError(f"there is no {role} before the current row", span=span)
    if role == "COUNT" and index is None:
        return int
    schema = inputs[component.input].schema
    if index is None:
        raise AlgebraError(f"{role} needs an attribute", span=span)
    _require_place(index, len(schema), "attribute", span)
    return aggregate_type(role, schema.types[index], span)


def aggregate_type(role: str, kind: type, span: Span | None = None) -> type:
    """Return the type of an aggregate over a run, or of an attribute itself."""
    require_aggregable(role, kind, span)
    return int if role == "COUNT" else float if role == "AVG" else kind


def _require_tested(conjunct: Expression, parts: Sequence[Part]) -> None:
    """Raise AlgebraError unless there is a moment at which a condition can be tested."""
    if any(isinstance(one, Duration) for one in walk(conjunct)):
        raise AlgebraError(
            "DUR has no meaning in a sequence",
            hint="WITHIN bounds its duration",
            span=conjunct.span,
            kind=TypeFault,
        )
    found = parts_in(conjunct, parts)
    each = {part.component for part in found if part.role in _EACH or part.before}
    if not each:
        return
    whole = any(_of_whole_run(part) for part in found if part.component in each)
    if len(each) > 1 or whole or any(part.component > max(each) for part in found):
        raise AlgebraError(
            "a condition on each row of a run reads only what comes before it",
            hint="compare a whole run, such as b[last].x or MAX(b[].x), with what comes later",
            span=conjunct.span,
        )


def _of_whole_run(part: Part) -> bool:
    return (part.role in RUN_AGGREGATES and not part.before) or part.role in ("last", "end")


def _require_partition(
    places: Sequence[tuple[int, ...] | None],
    inputs: Sequence[Node],
    strategy: Strategy,
    span: Span | None,
) -> None:
    if len(places) != len(inputs):
        raise AlgebraError("a partition names columns of each input", span=span)
    if strategy == "partition" and not any(places):
        raise AlgebraError("partition contiguity needs a partition", span=span)
    for columns, node in zip(places, inputs, strict=True):
        for column in columns or ():
            _require_place(column, len(node.schema), "column", span)


def _require_place(place: object, number: int, what: str, span: Span | None) -> None:
    if type(place) is not int or not 0 <= place < number:
        raise AlgebraError(f"there is no {what} {place}", span=span)
