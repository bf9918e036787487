r"""Event automata: the detection of a pattern's operators, as data (NEXT CEP, section 3.3).

An event automaton is a tuple <S, T, s0, sd, st, in, out> (Schultz-Møller, Migliavacca and Pietzuch,
*Distributed Complex Event Processing with Query Rewriting*, 2009).  Each operator of a pattern has
one (section 3.4); its input streams are events, or what the automata of its operands put out:

    ==============  ===========================================================================
    E with θ        s0 -E, θ, add-> sd
    E1|E2           s0 -E1, add-> sd, s0 -E2, add-> sd
    E1;E2, φ, θ     s0 -E1, add-> s1, s1 -E2, not φ, drop-> s1, s1 -E2, φ and θ, add-> sd
    E+, φ, θ        s0 -E, add-> s1 and sd, s1 -E, not φ, drop-> s1, s1 -E, φ and θ, add-> s1 and sd
    E1\E2, λ        s0 -E1, add-> sd, s0 -E2, λ, drop-> sf, a failed-detection state
    E@time          s0 -E, add-> s1, a timing state, s1 -timer, drop-> sd
    SEQ(E1, E2)     s0 -E1, add-> s1, s1 -*, drop-> s1, s1 -E2, add-> sd
    ==============  ===========================================================================

"add" appends the event to the partial detection (f_A), "drop" leaves it unchanged (f_D).  An event
without a transition ends an instance, such as one that satisfies φ and not θ.  The last line
is the automaton of a sequence of SASE (Wu, Diao and Rizvi 2006, section 3.2): its states keep
themselves active, so every later event may go on.

Nothing runs on them: `cep_core.languages.eql.lowering` says what does.  A test follows them and
finds the same matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from cep_core import Engine
from cep_core.algebra import Absent, Chain, Loop, Node, One, PatternMatch
from cep_core.algebra import sources_of as nodes_below
from cep_core.algebra.pattern_automaton import automaton_of
from cep_core.algebra.text import Said, Words, read_in_words
from cep_core.rewrite.limits import constraint
from cep_core.rewrite.pattern import (
    After,
    Condition,
    Either,
    Except,
    Next,
    Pattern,
    Plus,
    Ref,
    Source,
    in_words,
    parts_of,
)

Kind: TypeAlias = Literal["ordinary", "timing", "failed-detection"]
Change: TypeAlias = Literal["add", "drop"]
START, ACCEPTING, FAILED = "s0", "sd", "sf"
TIMER, ANY = "timer", "*"


@dataclass(frozen=True, slots=True)
class EventState:
    """A state; a timing state emits its timer event ``after`` so long."""

    name: str
    kind: Kind = "ordinary"
    after: str = ""


@dataclass(frozen=True, slots=True)
class Transition:
    """From state to state with an event that satisfies the predicate; "" always holds."""

    source: str
    target: str
    event: str
    change: Change
    predicate: str = ""


@dataclass(frozen=True, slots=True)
class EventAutomaton:
    """The automaton of an operator; ``inputs`` are streams, or outputs of other automata."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    states: tuple[EventState, ...]
    transitions: tuple[Transition, ...]


def automata_of(core: Engine, name: str) -> tuple[EventAutomaton, ...]:
    """Return the automata of a query of EQL or SASE, those of operands before what reads them."""
    query = core.query(name)
    prepared = core._queries.prepared(query)
    if prepared.pattern is not None:
        return tuple(_all(prepared.pattern, Said(query.literals, core.ticks_per_second)))
    return sequence_automata(prepared.node)


def sequence_automata(node: Node) -> tuple[EventAutomaton, ...]:
    """Return the automata of the sequences in a query's algebra: of the positive components."""
    below = [one for part in nodes_below(node) for one in sequence_automata(part)]
    match node:
        case PatternMatch():
            return (*below, _sequence(node) or _pattern(node))
        case _:
            return tuple(below)


def _pattern(node: PatternMatch) -> EventAutomaton:
    """Return the automaton of a pattern; a move into a state that may be the end accepts, too."""
    states = automaton_of(node.tree, node.mark)
    names = [START, *(f"s{number}" for number in range(1, len(states)))]
    edges: list[Transition] = []
    for name, state in zip(names, states, strict=True):
        if state.moves and name != START:
            edges.append(Transition(name, name, ANY, "drop"))
        for move in state.moves:
            component = node.components[state.looks[move.look].component]
            event = read_in_words(node.inputs[component.input])
            if states[move.target].moves:
                edges.append(Transition(name, names[move.target], event, "add"))
            if states[move.target].ends:
                edges.append(Transition(name, ACCEPTING, event, "add"))
    kept = [name for name, state in zip(names, states, strict=True) if state.moves]
    return EventAutomaton(
        "PATTERN",
        tuple(dict.fromkeys(map(read_in_words, node.inputs))),
        "PATTERN",
        (*map(EventState, kept), EventState(ACCEPTING)),
        tuple(dict.fromkeys(edges)),
    )


def _all(pattern: Pattern, said: Said) -> Iterator[EventAutomaton]:
    for part in parts_of(pattern):
        yield from _all(part, said)
    if not isinstance(pattern, Source) or pattern.filters:
        yield _of(pattern, said)


def _of(pattern: Pattern, said: Said) -> EventAutomaton:
    """Return the automaton of a pattern's topmost operator."""
    start, end, waiting = EventState(START), EventState(ACCEPTING), EventState("s1")
    output = in_words(pattern)
    match pattern:
        case Source(stream, _, filters):
            event = _event(stream, output)
            taken = Transition(START, ACCEPTING, event, "add", _and(filters, said))
            return EventAutomaton("filter", (event,), output, (start, end), (taken,))
        case Either(left, right, tests):
            events = _read(left), _read(right)
            edges = [Transition(START, ACCEPTING, e, "add", _and(tests, said)) for e in events]
            return EventAutomaton("|", events, output, (start, end), tuple(edges))
        case Next(left, right, filters, tests):
            first, event = _read(left), _read(right)
            edges = [Transition(START, "s1", first, "add"), *_skipped(event, filters, said)]
            edges.append(Transition("s1", ACCEPTING, event, "add", _and((*filters, *tests), said)))
            return EventAutomaton(";", (first, event), output, (start, waiting, end), tuple(edges))
        case Plus(inner, filters, tests):
            event, both = _read(inner), _and((*filters, *tests), said)
            edges = [Transition(START, to, event, "add") for to in ("s1", ACCEPTING)]
            edges += _skipped(event, filters, said)
            edges += [Transition("s1", to, event, "add", both) for to in ("s1", ACCEPTING)]
            return EventAutomaton("+", (event,), output, (start, waiting, end), tuple(edges))
        case Except(inner, other, tests):
            event, against = _read(inner), _read(other)
            edges = [
                Transition(START, ACCEPTING, event, "add"),
                Transition(START, FAILED, against, "drop", _and(tests, said)),
            ]
            states = start, end, EventState(FAILED, "failed-detection")
            return EventAutomaton("\\", (event, against), output, states, tuple(edges))
        case After(inner, time):
            event = _read(inner)
            timing = EventState("s1", "timing", Words(said, (), (), False).duration(time))
            edges = [
                Transition(START, "s1", event, "add"),
                Transition("s1", ACCEPTING, TIMER, "drop"),
            ]
            return EventAutomaton("@", (event,), output, (start, timing, end), tuple(edges))
        case _:
            assert_never(pattern)


def _sequence(node: PatternMatch) -> EventAutomaton | None:
    """Return the automaton of Figure 2 of SASE: a state for each component, active once reached.

    It is that of the components that occur; None: the pattern is more than these and runs of them.
    """
    parts = node.tree.parts if isinstance(node.tree, Chain) else (node.tree,)
    if node.policy != "none" or node.simultaneous:
        return None
    components = []
    for part in parts:
        match part:
            case One(component, None) | Loop(One(component, None), 1, None, "all", None, None):
                components.append(node.components[component])
            case Absent():
                continue
            case _:
                return None
    events = [read_in_words(node.inputs[one.input]) for one in components]
    last = len(events)
    names = [*(f"s{number}" for number in range(last)), ACCEPTING]
    edges = []
    for number, (event, one) in enumerate(zip(events, components, strict=True)):
        if number:
            edges.append(Transition(names[number], names[number], ANY, "drop"))
        if one.repeated:
            edges.append(Transition(names[number], names[number], event, "add"))
        edges.append(Transition(names[number], names[number + 1], event, "add"))
    states = tuple(map(EventState, names))
    output = f"SEQ({', '.join(events)})"
    return EventAutomaton("SEQ", tuple(dict.fromkeys(events)), output, states, tuple(edges))


def _skipped(event: str, filters: Sequence[Condition], said: Said) -> list[Transition]:
    """Return the loop of what does not satisfy φ; there is none if all do."""
    if not filters:
        return []
    return [Transition("s1", "s1", event, "drop", f"NOT ({_and(filters, said)})")]


def _read(pattern: Pattern) -> str:
    """Return the name of an operand as an input: a stream with its alias, or an output."""
    if isinstance(pattern, Source) and not pattern.filters:
        return _event(pattern.stream, pattern.alias)
    return in_words(pattern)


def _event(stream: str, alias: str) -> str:
    return stream if stream == alias else f"{stream} {alias}"


def _and(conditions: Sequence[Condition], said: Said) -> str:
    return " AND ".join(_condition(one, said) for one in conditions)


def _condition(condition: Condition, said: Said) -> str:
    within = constraint(condition)
    words = Words(said, (), [_ref(ref) for ref in condition.refs], False)
    if within is not None:
        first, last, time = within
        return f"({first}, {last}) OCCURS WITHIN {words.duration(time)}"
    return words(condition.expression)


def _ref(ref: Ref) -> str:
    """Return a reference as EQL writes it."""
    field = f"{ref.alias}.{ref.attribute}"
    match ref.kind:
        case "prev":
            return f"PREV({field})"
        case "all" | "items":
            return f"ALL({field})"
        case "begin" | "end":
            return f"{ref.alias}.{ref.kind}"
        case "field":
            return field
        case _:
            assert_never(ref.kind)
