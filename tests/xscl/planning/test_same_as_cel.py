"""XSCL over flat documents finds what CEL finds over events with the same attributes.

A query is written once, as text in the part of XSCL that both languages have; CEL's text is made
of it (`_in_cel`).  A document `<e><i>1</i><k>a</k><v>2</v><t>5</t></e>` is the event (1, "a", 2.0,
5).  The two share nothing above the core: grammar, normal form, witnesses and joins are XSCL's
own.  What is compared are the intervals of matches and all attributes of their events; the core
of CEL runs by itself.  NOT FOLLOWED BY, which CEL lacks, is the core's node `absence`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any, Literal, TypeAlias, get_args

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from lxml import etree

import cep_core
import xscl
from cep_core import algebra
from cep_core.algebra.expressions import FUNCTIONS, Constant, Expression, Parameter, rewrite
from cep_core.languages import LANGUAGES
from tests.examples import examples, usually

Kind: TypeAlias = Literal[
    "NEXT", "NEXT NEXT", "NEXT (NEXT)", "FOLD", "JOIN", "FOLLOWED BY", "NOT FOLLOWED BY"
]
Row: TypeAlias = tuple[int, str, float, int]
Found: TypeAlias = Counter[tuple[int, int, tuple[Row, ...]]]

SCHEMA = cep_core.Schema(("i", "k", "v", "t"), (int, str, float, int))
WIDTH = len(SCHEMA)


# -- Queries and histories, in both languages ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """A document, and an event."""

    number: int
    stream: str
    time: int
    key: str
    value: str

    @property
    def row(self) -> Row:
        return self.number, self.key, float(self.value), self.time

    def document(self) -> xscl.Document:
        leaves = {"i": self.number, "k": self.key, "v": self.value, "t": self.time}
        body = "".join(f"<{name}>{leaf}</{name}>" for name, leaf in leaves.items())
        return xscl.Document(self.stream, f"d{self.number}", self.time, f"<e>{body}</e>".encode())

    def event(self) -> cep_core.Event:
        return cep_core.Event(self.stream, self.row, self.time)


@dataclass(frozen=True, slots=True)
class Block:
    """An operand: a stream, with a condition or none."""

    stream: str
    condition: str | None

    def xscl(self, number: int | Literal[""], more: str = "") -> str:
        condition = "" if self.condition is None else f"[{self.condition}]"
        bound = "".join(f"[./{name}->{name}{number}]" for name in ("k", "v"))
        return f"{self.stream}/e{condition}{bound}{more}"

    def cel(self, number: int | Literal[""], more: str = "") -> str:
        chosen = self.stream
        if self.condition is not None:
            chosen = f"FILTER{{{_in_cel(self.condition)}}}({chosen})"
        names = ", ".join(f"{name} AS {name}{number}" for name in SCHEMA.names)
        return f"(SELECT {names}{more} FROM {chosen})"


@dataclass(frozen=True, slots=True)
class Query:
    """An operator over blocks; `window` counts for joins and absence, `again` for FOLD."""

    kind: Kind
    blocks: tuple[Block, ...]
    predicates: tuple[str, ...]
    window: int = 0
    again: str = "1 = 1"

    def xscl(self) -> str:
        if self.kind == "FOLD":
            left, right = self.blocks[0].xscl("", "[./v->s]"), self.blocks[1].xscl("")
            aggregates = "$.c + 1 AS c, $.s + number($2.v) AS s"
            fold = f"FOLD{{{self.predicates[0]}, {self.again}, {aggregates}}}"
            return f'SELECT <r c="{{c}}" s="{{s}}"/> FROM {left} {fold} {right}'
        operands = [block.xscl(number) for number, block in enumerate(self.blocks, 1)]
        return self._infix(operands, list(self.predicates))

    def cel(self) -> str:
        """Return the query in CEL, NOT FOLLOWED BY as NEXT of the same predicate."""
        predicates = [_in_cel(predicate) for predicate in self.predicates]
        if self.kind == "FOLD":
            left, right = self.blocks[0].cel("", ", 0.0 AS c, v AS s"), self.blocks[1].cel("")
            aggregates = "$.c + 1 AS c, $.s + $2.v AS s"
            fold = f"FOLD{{{predicates[0]}, {_in_cel(self.again)}, {aggregates}}}"
            return f"SELECT * FROM {left} {fold} {right}"
        operands = [block.cel(number) for number, block in enumerate(self.blocks, 1)]
        match self.kind:
            case "JOIN":
                infix = f"{operands[0]} JOIN{{{predicates[0]}, {self.window} s}} {operands[1]}"
            case "FOLLOWED BY":
                later = f"({predicates[0]}) AND t1 < t2"
                infix = f"{operands[0]} JOIN{{{later}, {self.window} s}} {operands[1]}"
            case "NOT FOLLOWED BY":
                infix = f"{operands[0]} NEXT{{{predicates[0]}}} {operands[1]}"
            case _:
                infix = self._infix(operands, predicates)
        return f"SELECT * FROM {infix}"

    def _infix(self, operands: Sequence[str], predicates: Sequence[str]) -> str:
        first, second, *rest = operands
        match self.kind:
            case "NEXT (NEXT)":
                inner = f"({second} NEXT{{{predicates[1]}}} {rest[0]})"
                return f"{first} NEXT{{{predicates[0]}}} {inner}"
            case "NEXT" | "NEXT NEXT":
                once = f"{first} NEXT{{{predicates[0]}}} {second}"
                return f"{once} NEXT{{{predicates[1]}}} {rest[0]}" if rest else once
            case _:
                return f"{first} {self.kind}{{{predicates[0]}, {self.window}}} {second}"


@dataclass(frozen=True, slots=True)
class Case:
    """A query that is registered after some items, how these are cut, and the lateness."""

    query: Query
    items: tuple[Item, ...]
    since: int
    cuts: tuple[bool, ...]
    lateness: dict[str, int] = field(default_factory=dict)

    def batches(self) -> Iterator[tuple[Item, ...]]:
        """Yield the items in batches; one ends where the query is registered."""
        batch: list[Item] = []
        for place, (item, cut) in enumerate(zip(self.items, cycle(self.cuts), strict=False), 1):
            batch.append(item)
            if cut or place == self.since:
                yield tuple(batch)
                batch = []
        yield tuple(batch)


def _in_cel(text: str) -> str:
    """Return a predicate in CEL."""
    text = re.sub(r"number\(([^()]*)\)", r"\1", text)
    for ours, theirs in (("not(", "NOT ("), ("starts-with(", "starts_with("), (" div ", " / ")):
        text = text.replace(ours, theirs)
    return text


# -- Running them ----------------------------------------------------------------------------


def by_xscl(case: Case) -> tuple[Found, dict[Any, set[tuple[float, ...]]]]:
    """Return XSCL's matches, and for each the aggregates that it was delivered with."""
    found: Found = Counter()
    aggregates: dict[Any, set[tuple[float, ...]]] = defaultdict(set)
    rows = {f"d{item.number}": item.row for item in case.items}
    with xscl.Engine() as engine:
        for stream, lateness in case.lateness.items():
            engine.stream(stream, lateness=lateness)
        matches: list[xscl.Match] = []
        pushed = 0
        for batch in case.batches():
            if pushed == case.since:
                engine.subscribe("q", case.query.xscl())
            matches += engine.push([item.document() for item in batch])
            pushed += len(batch)
        for match in (*matches, *engine.flush()):
            key = match.t0, match.t1, tuple(rows[document] for document in match.documents)
            found[key] += 1
            if case.query.kind == "FOLD":
                made = etree.fromstring(match.xml())
                aggregates[key].add((float(made.attrib["c"]), float(made.attrib["s"])))
    return found, aggregates


def by_cel(case: Case) -> tuple[Found, dict[Any, set[tuple[float, ...]]]]:
    """Return the core's matches; of equal ones of FOLD, over other events between, one."""
    core = cep_core.Engine(ticks_per_second=1)
    for stream, lateness in case.lateness.items():
        core.stream(stream, SCHEMA, lateness=lateness)
    matches: list[cep_core.Match] = []
    pushed = 0
    for batch in case.batches():
        if pushed == case.since:
            core.register(
                "q", _absence(case.query) if "NOT" in case.query.kind else case.query.cel()
            )
        matches += core.push([item.event() for item in batch])
        pushed += len(batch)
    found: Found = Counter()
    aggregates: dict[Any, set[tuple[float, ...]]] = defaultdict(set)
    for _, event in (*matches, *core.close()):
        assert event.t1 is not None
        values = event.values
        if case.query.kind == "FOLD":
            last = values[WIDTH + 2 :]
            key = event.t0, event.t1, (values[:WIDTH], last[:WIDTH])
            found[key] = 1
            aggregates[key].add(last[WIDTH:])
        else:
            parts = (values[at : at + WIDTH] for at in range(0, len(values), WIDTH))
            found[event.t0, event.t1, tuple(parts)] += 1
    return found, aggregates


class _Streams:
    """The streams S and R."""

    def schema(self, name: str) -> cep_core.Schema | None:
        return SCHEMA if name in self.names() else None

    def names(self) -> Sequence[str]:
        return ("R", "S")

    def rate(self, name: str) -> float | None:
        return None


def _absence(query: Query) -> algebra.Absence:
    """Return NOT FOLLOWED BY as a node, its literals as constants."""
    _, literals, _ = LANGUAGES["cel"].split(query.cel(), 1)
    node = LANGUAGES["cel"].prepare(query.cel(), _Streams(), 1, FUNCTIONS).node
    assert isinstance(node, algebra.Sequence)

    def constant(part: Expression) -> Expression:
        return Constant(literals[part.index]) if isinstance(part, Parameter) else part

    def filled(operand: algebra.Node) -> algebra.Node:
        match operand:
            case algebra.Project(source):
                return replace(operand, source=filled(source))
            case algebra.Select(_, predicate):
                return replace(operand, predicate=rewrite(predicate, constant))
            case _:
                return operand

    left, right = filled(node.left), filled(node.right)
    return algebra.absence(left, right, rewrite(node.predicate, constant), Constant(query.window))


# -- Drawing them ----------------------------------------------------------------------------

_CONDITIONS = ("v > 1", "k = 'a'", "contains(k, 'a')", "v < 4 and k != 'b'", "not(v = 2)")
_PAIRS = (
    "{k1} = {k2}",
    "{k1} = {k2}",
    "{k1} != {k2}",
    "{k1} <= {k2}",
    "contains({k2}, {k1})",
    "starts-with({k2}, {k1})",
    "number({v1}) < number({v2})",
    "number({v2}) = {v1}",
    "{v2} >= number({v1}) + 1",
    "number({v1}) * 2 > {v2}",
    "{v1} - number({v2}) <= 1",
    "number({v1}) div 2 < {v2}",
)
_ALONE = ("{k1} = 'a'", "{v1} > 1", "{k2} != 'b'", "{v2} = 2", "'a' < {k2}", "number({v2}) < 3")
_AGAIN = ("1 = 1", "1 = 1", "$.c < 2", "$.s + 1 < 9", "$2.v > $.c", "$.k = $2.k", "$1.k != $2.k")
_RUNNING = ("$2.k = $.k", "$2.v > number($.v)", "number($2.v) >= $.s - 3", "$.c < 3")


@st.composite
def _items(draw: st.DrawFn) -> tuple[Item, ...]:
    """Return a strategy of items in order of arrival: that of time, or some of them later."""
    size = draw(st.integers(5, 9))
    steps = draw(st.lists(st.sampled_from((0, 1, 1, 1, 2, 3)), min_size=size, max_size=size))
    behind = st.sampled_from(draw(st.sampled_from(((0,), (0,), (0, 0, 2, 4)))))
    time, items = 5, []
    for number, step in enumerate(steps, 1):
        time += step
        stream = draw(st.sampled_from("SSSR"))
        key, value = draw(st.sampled_from(("a", "a", "ab", "b"))), draw(st.sampled_from("1223"))
        late = draw(behind)
        items.append(
            Item(
                number,
                stream,
                time - late,
                key,
                draw(st.sampled_from((value, value, f"{value}.5"))),
            )
        )
    return tuple(items)


def _predicate(draw: st.DrawFn, names: dict[str, str], own: Sequence[str] = ()) -> str:
    """Return a conjunction, a disjunction in it, or a negation."""
    atom = st.sampled_from((*_PAIRS, *own, *own)).map(lambda text: text.format(**names))
    alone = st.sampled_from(_ALONE).map(lambda text: text.format(**names))
    shape = draw(st.sampled_from(("{0}", "{0}", "{0} AND {1}", "{0} AND ({1} OR {2})", "not({2})")))
    return shape.format(draw(atom), draw(st.one_of(atom, alone)), draw(alone))


def _names(draw: st.DrawFn, kind: Kind, left: int, right: int) -> dict[str, str]:
    """Return the spelling of both sides' variables: with decorators, or without."""
    if kind == "FOLD":
        return {f"{name}{side}": f"${side}.{name}" for name in "kv" for side in (1, 2)}
    marked = "NEXT" in kind and draw(st.booleans())
    one, two = ("$1.", "$2.") if marked else ("", "")
    sides = ((1, one, left), (2, two, right))
    return {f"{name}{side}": f"{mark}{name}{at}" for name in "kv" for side, mark, at in sides}


def _query(draw: st.DrawFn, kind: Kind) -> Query:
    blocks = tuple(
        Block(draw(st.sampled_from("SSSR")), draw(st.sampled_from((None, None, *_CONDITIONS))))
        for _ in range(3 if kind in ("NEXT NEXT", "NEXT (NEXT)") else 2)
    )
    predicates = [
        _predicate(draw, _names(draw, kind, at, at + 1), _RUNNING if kind == "FOLD" else ())
        for at in range(1, len(blocks))
    ]
    return Query(
        kind, blocks, tuple(predicates), draw(st.integers(2, 5)), draw(st.sampled_from(_AGAIN))
    )


@st.composite
def cases(draw: st.DrawFn, kind: Kind) -> Case:
    """Return a strategy of cases of one kind; of some queries the first that finds anything."""
    queries = [_query(draw, kind) for _ in range(8 if "NEXT " in kind else 3)]
    items = draw(_items())
    since = draw(st.sampled_from((0, 0, 0, 2)))
    cuts = tuple(draw(st.lists(st.booleans(), min_size=1, max_size=5)))
    lateness = {stream: draw(st.sampled_from((0, 0, 2, 4))) for stream in ("S", "R")}
    drawn = [Case(query, items, since, cuts, lateness) for query in queries]
    return next((case for case in drawn if by_cel(case)[0]), drawn[0])


# -- The property, and that it can fail ------------------------------------------------------

KINDS: tuple[Kind, ...] = get_args(Kind)
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def differ(case: Case, other: Case) -> bool:
    """Return True if XSCL's matches in a case differ from CEL's in another one."""
    ours, our_aggregates = by_xscl(case)
    theirs, their_aggregates = by_cel(other)
    return ours != theirs or any(
        not delivered <= their_aggregates[key] for key, delivered in our_aggregates.items()
    )


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "NEXT", "NEXT NEXT", "FOLD", "JOIN"))
def test_xscl_finds_what_cel_finds(kind: Kind) -> None:
    """A third of the cases are drawn again until they have matches, so a third has."""
    seen = Counter[str]()

    def same(case: Case) -> None:
        assert not differ(case, case), (by_xscl(case), by_cel(case))
        seen["cases"] += 1
        seen["with matches"] += bool(by_cel(case)[0])

    examples(2)(given(cases(kind))(same))()
    examples(2)(given(cases(kind).filter(lambda case: bool(by_cel(case)[0])))(same))()
    assert 3 * seen["with matches"] >= seen["cases"], seen


def _wider(query: Query) -> Query:
    return replace(query, window=query.window + 1)


def _narrower(query: Query) -> Query:
    return replace(query, window=max(1, query.window - 1))


def _sides(query: Query) -> Query:
    return replace(query, blocks=query.blocks[::-1])


def _dropped(query: Query) -> Query:
    return replace(query, predicates=("1 = 1", *query.predicates[1:]))


def _last_dropped(query: Query) -> Query:
    return replace(query, predicates=(*query.predicates[:-1], "1 = 1"))


def _on_and_on(query: Query) -> Query:
    return replace(query, again="1 = 1")


def _edge(query: Query) -> Query:
    edges = ((" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "))
    for ours, theirs in edges:
        if ours in query.predicates[0]:
            changed = query.predicates[0].replace(ours, theirs)
            return replace(query, predicates=(changed, *query.predicates[1:]))
    return query


def _no_condition(query: Query) -> Query:
    return replace(query, blocks=tuple(replace(one, condition=None) for one in query.blocks))


def _next(query: Query) -> Query:
    """Return NEXT in the place of FOLLOWED BY."""
    return replace(query, kind="NEXT")


def _joined(query: Query) -> Query:
    """Return JOIN in the place of FOLLOWED BY: equal times, and the other order, too."""
    return replace(query, kind="JOIN")


def _inner_first(query: Query) -> Query:
    return replace(query, kind="NEXT (NEXT)")


FAULTS: tuple[tuple[Kind, Callable[[Query], Query]], ...] = (
    *(("JOIN", fault) for fault in (_wider, _narrower, _dropped, _no_condition)),
    *(("FOLLOWED BY", fault) for fault in (_wider, _sides, _next, _joined)),
    *(("NOT FOLLOWED BY", fault) for fault in (_narrower, _sides, _dropped)),
    *(("NEXT", fault) for fault in (_sides, _dropped, _edge)),
    *(("NEXT NEXT", fault) for fault in (_last_dropped, _inner_first)),
    *(("FOLD", fault) for fault in (_on_and_on, _dropped, _no_condition)),
)


USUAL_FAULTS = (
    ("NOT FOLLOWED BY", _narrower),
    ("NEXT NEXT", _inner_first),
)


@pytest.mark.parametrize(
    ("kind", "fault"),
    usually(FAULTS, *USUAL_FAULTS, several=True),
    ids=[f"{kind}-{fault.__name__[1:]}" for kind, fault in FAULTS],
)
def test_a_fault_is_caught(kind: Kind, fault: Callable[[Query], Query]) -> None:
    """CEL runs a faulty query: among a number of cases there is one that shows it."""
    assert _caught(kind, lambda case: replace(case, query=fault(case.query)))


@pytest.mark.slow
def test_a_fault_in_lateness_or_registration_is_caught() -> None:
    punctual = {"S": 0, "R": 0}
    assert _caught("NEXT", lambda case: replace(case, lateness=punctual))
    assert _caught("JOIN", lambda case: replace(case, since=0))


def _caught(kind: Kind, fault: Callable[[Case], Case]) -> bool:
    """Return True if a case shows a fault of CEL's; raises NoSuchExample if none does."""

    def shown(case: Case) -> bool:
        faulty = fault(case)
        return by_cel(case) != by_cel(faulty) and differ(case, faulty)

    search = settings(
        max_examples=150,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=_SLOW,
    )
    return shown(find(cases(kind), shown, settings=search))
