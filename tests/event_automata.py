"""Event automata: the detection of a sequence or a pattern as data (NEXT CEP, section 3.3).

An event automaton is a tuple <S, T, s0, sd, st, in, out> (Schultz-Møller, Migliavacca and Pietzuch,
*Distributed Complex Event Processing with Query Rewriting*, 2009):

    SEQ(E1, E2)     s0 -E1, add-> s1, s1 -*, drop-> s1, s1 -E2, add-> sd

"add" appends the event to the partial detection (f_A), "drop" leaves it unchanged (f_D).  States
keep themselves active, so every later event may go on (Wu, Diao and Rizvi 2006, section 3.2).
Nothing runs on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cep_core import Engine
from cep_core.algebra import Absent, Chain, Loop, Node, One, PatternMatch
from cep_core.algebra import sources_of as nodes_below
from cep_core.algebra.pattern_automaton import automaton_of
from cep_core.algebra.text import read_in_words

Change: TypeAlias = Literal["add", "drop"]
START, ACCEPTING, ANY = "s0", "sd", "*"


@dataclass(frozen=True, slots=True)
class Transition:
    """From state to state with an event."""

    source: str
    target: str
    event: str
    change: Change


@dataclass(frozen=True, slots=True)
class EventAutomaton:
    """The automaton of a sequence or a pattern."""

    output: str
    transitions: tuple[Transition, ...]


def automata_of(core: Engine, name: str) -> tuple[EventAutomaton, ...]:
    """Return the automata of a query, those of operands before what reads them."""
    return sequence_automata(core._queries.prepared(core.query(name)).node)


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
    return EventAutomaton("PATTERN", tuple(dict.fromkeys(edges)))


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
    return EventAutomaton(f"SEQ({', '.join(events)})", tuple(edges))
