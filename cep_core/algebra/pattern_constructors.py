"""The constructor of patterns, which refuses what is not well-formed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cep_core.algebra.constructors import require, require_window, schema_of
from cep_core.algebra.expressions import FUNCTIONS, Duration, Expression, Functions, Time, walk
from cep_core.algebra.nodes import Component, Node, Part, PatternMatch, Rules
from cep_core.algebra.pattern_automaton import PatternState, automaton_of
from cep_core.algebra.pattern_tree import Absent, Loop, One, PatternTree, Unordered, trees_in
from cep_core.algebra.patterns import MOST_COMPONENTS, RUN_AGGREGATES, aggregate_type
from cep_core.errors import AlgebraError, Extent, TypeFault

TIMES = ("start", "first_end", "end", "current_end", "previous_end")
_OF_ONE = ("value", "COUNT", "start", "first_end", "end")

_MEANINGLESS = (
    (Duration, "DUR", "WITHIN bounds its duration"),
    (Time, "the time of a row", "parts have the times of their components"),
)


def pattern_match(
    inputs: Sequence[Node],
    components: Sequence[Component],
    tree: PatternTree,
    parts: Sequence[Part],
    names: Sequence[str],
    predicate: Expression,
    rules: Rules | None = None,
    functions: Functions = FUNCTIONS,
    span: Extent | None = None,
) -> PatternMatch:
    """Return a pattern; ``parts`` are the values that its predicate and its matches may read.

    ``names`` are those of the first parts, which are the columns of its matches.
    """
    rules = rules or Rules()
    if len(components) > MOST_COMPONENTS:
        raise AlgebraError(f"a pattern has at most {MOST_COMPONENTS} components", span=span)
    for component in components:
        _require_place(component.input, len(inputs), "input", span)
    _require_tree(tree, components, rules, span)
    kinds = tuple([_part_type(part, components, inputs, span) for part in parts])
    if len(names) > len(parts):
        raise AlgebraError("a pattern puts out more than it has", span=span)
    predicate = require(predicate, {2: kinds}, functions)
    tests = require(rules.tests, {2: kinds}, functions)
    for condition in (predicate, tests):
        for kind, name, hint in _MEANINGLESS:
            if any(isinstance(part, kind) for part in walk(condition)):
                message = f"{name} has no meaning in a pattern"
                raise AlgebraError(message, hint=hint, span=condition.span, kind=TypeFault)
    for one in (*rules.spans, *([] if rules.window is None else [rules.window])):
        require_window(one, functions)
    if rules.policy in ("to first", "to last"):
        _require_place(rules.target, len(components), "component", span)
    if rules.policy == "restart" and rules.simultaneous:
        raise AlgebraError(
            "RESTART follows one first event, and of simultaneous ones there is no first",
            hint="leave out NONSTRICT",
            span=span,
        )
    paces = {one.pace for one in trees_in(tree) if isinstance(one, Loop)}
    if rules.policy == "newest" and paces & {"longest", "every"}:
        raise AlgebraError(
            "NEWEST drops partial matches, and LONGEST and EVERY need all of them",
            hint="leave out one of both",
            span=span,
        )
    if rules.simultaneous and "every" in paces:
        raise AlgebraError(
            "EVERY begins again after an event, and with NONSTRICT by it as well",
            hint="leave out NONSTRICT",
            span=span,
        )
    partition = tuple(rules.partition) or (None,) * len(inputs)
    if len(partition) != len(inputs):
        raise AlgebraError("a partition names columns of each input", span=span)
    for columns, node in zip(partition, inputs, strict=True):
        for column in columns or ():
            _require_place(column, len(node.schema), "column", span)
    schema = schema_of(names, kinds[: len(names)], span)
    rules = replace(rules, partition=partition, spans=tuple(rules.spans), tests=tests)
    return PatternMatch(
        *(tuple(inputs), tuple(components), tree, tuple(parts), predicate, rules, schema)
    )


def _require_tree(
    tree: PatternTree, components: Sequence[Component], rules: Rules, span: Extent | None
) -> None:
    """Raise AlgebraError unless each component is in the tree once, and some has to occur."""
    found: list[int] = []
    aside: list[int] = []
    for one in trees_in(tree):
        match one:
            case One(component, _, until):
                found.append(component)
                aside += [number for number in until if number not in aside]
            case Unordered(those, bound):
                found += those
                if bound is not None:
                    _require_place(bound, len(rules.spans), "bound", span)
            case Absent(component, time=time):
                aside.append(component)
                if time is not None:
                    _require_place(time, len(rules.spans), "bound", span)
            case Loop(inner, least, most, pace, until=ended):
                if least < 0 or (most is not None and most < max(least, 1)):
                    raise AlgebraError(f"there is no repetition {{{least},{most}}}", span=span)
                if pace == "longest" and not isinstance(inner, One):
                    hint = "write it behind the run of one component"
                    raise AlgebraError("no group is the longest", hint=hint, span=span)
                aside += [] if ended is None else [ended]
            case _:
                continue
    if sorted((*found, *aside)) != list(range(len(components))):
        raise AlgebraError("each component is in a pattern once", span=span)
    if not found:
        raise AlgebraError("some component has to occur", span=span)
    try:
        states = automaton_of(tree, rules.mark)
    except AlgebraError as error:
        raise AlgebraError(error.message, hint=error.hint, span=span) from None
    if rules.window is None and any(map(_never_ends, states)):
        raise AlgebraError(
            "nothing ends the longest run at the end of a pattern",
            hint="add WITHIN and a duration, UNTIL, or the mark strict",
            span=span,
        )
    if rules.window is None and _meets_an_edge(states):
        raise AlgebraError(
            "what is negated at the start or end of a pattern needs a window",
            hint="add WITHIN and a duration, or FOR and one to what is negated",
            span=span,
        )


def _meets_an_edge(states: Sequence[PatternState]) -> bool:
    """Return True if an absence without a time of its own may begin or end a pattern."""
    begins = [move.passes for move in states[0].moves]
    ends = [absences for state in states for absences in state.ends]
    return any(absence.time is None for absences in (*begins, *ends) for absence in absences)


def _never_ends(state: PatternState) -> bool:
    """Return True if a run that has to be the longest may always take one event more."""
    ending = state.strict | state.partition
    for _, moves in state.stopped_by:
        ending |= moves
    return bool(state.longest & ~ending)


def _part_type(
    part: Part, components: Sequence[Component], inputs: Sequence[Node], span: Extent | None
) -> type:
    """Return the type of a part; raises AlgebraError if there is no such part."""
    _require_place(part.component, len(components), "component", span)
    component, role, index = components[part.component], part.role, part.index
    if (not component.repeated and role not in _OF_ONE) or (component.repeated and role == "value"):
        what = "a run" if component.repeated else "a single row"
        raise AlgebraError(f"{what} has no {role}", span=span)
    if part.before and role not in RUN_AGGREGATES:
        raise AlgebraError(f"there is no {role} before the current row", span=span)
    if part.offset and (role not in ("first", "last") or part.offset < 0):
        raise AlgebraError(f"there is no {role} with an offset", span=span)
    if role in TIMES or (role == "COUNT" and index is None):
        return int
    if index is None:
        raise AlgebraError(f"{role} needs an attribute", span=span)
    schema = inputs[component.input].schema
    _require_place(index, len(schema), "attribute", span)
    return tuple if role == "LIST" else aggregate_type(role, schema.types[index], span)


def _require_place(place: object, number: int, what: str, span: Extent | None) -> None:
    if type(place) is not int or not 0 <= place < number:
        raise AlgebraError(f"there is no {what} {place}", span=span)
