"""The engine equals the oracle, however its input is cut, ordered, registered or kept.

Each case is a few random documents and subscriptions (tests/strategies.py).  What the
engine delivers is compared, as a multiset, with what tests/oracle.py finds by brute force:
documents, nodes of the join variables, the sequences of all other variables, times.

The properties are worth something only if the cases are: the last tests count in many of them
how many subscriptions had matches and in which of them each feature of the language occurred, and
plant faults in the oracle's queries that the comparison must find.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import xscl
from tests.examples import examples
from tests.joining import in_database
from tests.oracle import Match, arrivals, matches, predicate_variables, replay
from tests.strategies import (
    And,
    Axis,
    Block,
    Case,
    Compare,
    Condition,
    Doc,
    Event,
    Exists,
    Not,
    Operand,
    Or,
    Push,
    Query,
    Restriction,
    Step,
    StringTest,
    Subscribe,
    Subscription,
    Unsubscribe,
    ValueJoin,
    cases,
    histories,
    plain,
    shuffles,
)
from xscl.engine.ingest import PushResult
from xscl.shredding.remote.artefact import Artefacts, Loaded
from xscl.shredding.remote.current import current
from xscl.shredding.remote.remote_bindings import (
    Part,
    Portion,
    portion_of,
    read_portion,
    texts_of,
    write_portion,
)

CUTS = st.lists(st.sampled_from((True, False, False)), min_size=6, max_size=6)
ONE_BATCH, ONE_BY_ONE = (False,), (True,)


# -- What the engine delivers ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delivered:
    """A match with all that may be compared, read while the engine is open."""

    match: Match
    id: str
    times: tuple[int, int]
    sequences: tuple[tuple[str, tuple[int, ...]], ...]


Batch: TypeAlias = list[Push] | Subscribe | Unsubscribe


def _batches(events: Sequence[Event], cuts: Sequence[bool]) -> Iterator[Batch]:
    """Return the events with the documents in batches; a cut ends the batch."""
    batch, ends = list[Push](), cycle(cuts)
    for event in events:
        if isinstance(event, Push):
            batch.append(event)
            if not next(ends):
                continue
        if batch:
            yield batch
            batch = []
        if not isinstance(event, Push):
            yield event
    if batch:
        yield batch


def _pushed(push: Push) -> xscl.Document:
    doc = push.document
    stream = doc.streams[0] if len(doc.streams) == 1 else doc.streams
    return xscl.Document(stream=stream, id=doc.id, timestamp=doc.timestamp, xml=doc.xml)


def _delivered(match: xscl.Match, query: Query) -> Delivered:
    bindings = match.bindings
    nodes = []
    for variable in predicate_variables(query):
        (node,) = bindings[variable]
        nodes.append((variable, node.document, node.node))
    sequences = {name: tuple(node.node for node in bindings[name]) for name in bindings}
    key = (match.subscription, tuple(match.documents), tuple(nodes))
    return Delivered(key, match.id, (match.t0, match.t1), tuple(sorted(sequences.items())))


def _settings(engine: xscl.Engine, case: Case) -> None:
    for stream, lateness in case.lateness.items():
        engine.stream(stream, lateness=lateness)


def _play(
    engine: xscl.Engine, case: Case, events: Sequence[Event], cuts: Sequence[bool]
) -> list[Delivered]:
    queries = {subscription.name: subscription.query for subscription in case.subscriptions}
    found = list[Delivered]()
    for number, item in enumerate(_batches(events, cuts)):
        match item:
            case Subscribe(Subscription(name, query, updates)):
                engine.subscribe(name, query.text(), updates=updates)
            case Unsubscribe(name):
                engine.unsubscribe(name)
            case list():
                with in_database((number + len(case.events)) % 2 == 0):
                    pushed = engine.push([_pushed(push) for push in item])
                for made in pushed:
                    found.append(_delivered(made, queries[made.subscription]))
    return found


def run(
    case: Case,
    cuts: Sequence[bool] = ONE_BY_ONE,
    make: Callable[[], xscl.Engine] = xscl.Engine,
) -> list[Delivered]:
    """Return what an engine in memory delivers for a case."""
    engine = make()
    try:
        _settings(engine, case)
        return _play(engine, case, case.events, cuts)
    finally:
        engine.close()


def run_in_file(case: Case, cuts: Sequence[bool], pause: int) -> list[Delivered]:
    """Return what an engine in a file delivers that is closed and opened again midway."""
    found = list[Delivered]()
    with tempfile.TemporaryDirectory() as folder:
        for part, events in enumerate((case.events[:pause], case.events[pause:])):
            engine = xscl.Engine(str(Path(folder) / "state.duckdb"))
            try:
                if part == 0:
                    _settings(engine, case)
                found += _play(engine, case, events, cuts)
            finally:
                engine.close()
    return found


def _agrees(found: Sequence[Delivered], case: Case) -> None:
    """Fail unless the engine delivered exactly the oracle's matches, each once, with all nodes."""
    expected = replay(case.events, case.lateness)
    assert Counter(made.match for made in found) == Counter(expected.keys())
    assert len({made.id for made in found}) == len(found)
    when = {row.id: row.document.timestamp for row in arrivals(case.events)}
    for made in found:
        times = [when[document] for document in made.match[1]]
        assert dict(made.sequences) == expected[made.match]
        assert made.times == (min(times), max(times))


# -- What the cases contain ------------------------------------------------------------------


def _steps(step: Step) -> Iterator[Step]:
    yield step
    for condition in step.conditions:
        yield from _condition_steps(condition)
    if step.then is not None:
        yield from _steps(step.then)


def _condition_steps(condition: Condition) -> Iterator[Step]:
    for part in _conditions(condition):
        if isinstance(part, Exists):
            yield from _steps(part.step)
        elif isinstance(part, Compare | StringTest) and part.path.step is not None:
            yield from _steps(part.path.step)


def _conditions(condition: Condition) -> Iterator[Condition]:
    yield condition
    match condition:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _conditions(part)
        case Not(part):
            yield from _conditions(part)
        case Exists() | Compare() | StringTest():
            return


def _exists(query: Query) -> Iterator[tuple[Exists, list[Step]]]:
    """Return the nested paths that stand by themselves in brackets, with all their steps."""
    for step in _all_steps(query):
        for condition in step.conditions:
            if isinstance(condition, Exists):
                yield condition, list(_steps(condition.step))


def _all_steps(query: Query) -> list[Step]:
    blocks = [query.left] if query.right is None else [query.left, query.right]
    return [step for block in blocks for step in _steps(block.step)]


def _all_conditions(query: Query) -> list[Condition]:
    found = [condition for step in _all_steps(query) for condition in step.conditions]
    return [part for condition in found for part in _conditions(condition)]


def _compares(query: Query, kind: type[object]) -> bool:
    return any(isinstance(c, Compare) and isinstance(c.value, kind) for c in _all_conditions(query))


def _twins(query: Query) -> bool:
    for step in _all_steps(query):
        bare = [
            _unnamed(condition.step)
            for condition in step.conditions
            if isinstance(condition, Exists) and condition.step.variable
        ]
        if len(bare) > len(set(bare)):
            return True
    return False


def _unnamed(step: Step) -> Step:
    return replace(step, variable=None, then=None if step.then is None else _unnamed(step.then))


def _last(step: Step) -> Step:
    return step if step.then is None else _last(step.then)


def _joins(query: Query) -> list[ValueJoin]:
    return [atom for atom in query.atoms if isinstance(atom, ValueJoin)]


FEATURES: dict[str, Callable[[Query], bool]] = {
    "one block": lambda q: q.right is None,
    "JOIN": lambda q: q.right is not None and q.operator == "JOIN",
    "FOLLOWED BY": lambda q: q.right is not None and q.operator == "FOLLOWED BY",
    "two streams": lambda q: q.right is not None and q.left.stream != q.right.stream,
    "one stream": lambda q: q.right is not None and q.left.stream == q.right.stream,
    "INF": lambda q: ", INF" in q.text(),
    "window left out": lambda q: q.unit == "omitted",
    "window in ms": lambda q: q.unit == "ms",
    "window 0": lambda q: q.right is not None and q.window == 0,
    "existential branch": lambda q: any(
        all(step.variable is None for step in steps) for _, steps in _exists(q)
    ),
    "nested binding": lambda q: any(
        sum(step.variable is not None for step in steps) > 1 for _, steps in _exists(q)
    ),
    "// under //": lambda q: any(
        step.axis == "descendant"
        and any(inner.axis == "descendant" for inner in list(_steps(step))[1:])
        for step in _all_steps(q)
    ),
    "*": lambda q: any(step.name == "*" for step in _all_steps(q)),
    "*:name": lambda q: any(step.name.startswith("*:") for step in _all_steps(q)),
    "prefix": lambda q: any(step.name.startswith(("p:", "dc:")) for step in _all_steps(q)),
    "attribute": lambda q: any(step.axis == "attribute" for step in _all_steps(q)),
    "//@": lambda q: any(step.axis == "descendant-attribute" for step in _all_steps(q)),
    "string predicate": lambda q: _compares(q, str),
    "number predicate": lambda q: _compares(q, int) or _compares(q, float),
    "string function": lambda q: any(isinstance(c, StringTest) for c in _all_conditions(q)),
    "text()": lambda q: "text()" in q.text(),
    "and": lambda q: any(isinstance(c, And) for c in _all_conditions(q)),
    "or": lambda q: any(isinstance(c, Or) for c in _all_conditions(q)),
    "not": lambda q: any(isinstance(c, Not) for c in _all_conditions(q)),
    "equal patterns": _twins,
    "two value joins": lambda q: len(_joins(q)) > 1,
    "variable in several joins": lambda q: (
        max(Counter(j.left.variable for j in _joins(q)).values(), default=0) > 1
    ),
    "!= in the predicate": lambda q: any(join.operator == "!=" for join in _joins(q)),
    "path in the predicate": lambda q: any(j.left.step or j.right.step for j in _joins(q)),
    "constant in the predicate": lambda q: any(isinstance(a, Restriction) for a in q.atoms),
    "right side first": lambda q: any(join.flipped for join in _joins(q)),
    "variable on an inner step": lambda q: (
        q.left.step.variable is not None and q.left.step.then is not None
    ),
}

SITUATIONS = (
    "at the edge of the window",
    "at the same time",
    "later part arrived first",
    "document of two streams",
    "new version",
    "came late",
    "went early",
    "lost to lateness",
)


def _situations(case: Case, match: Match, query: Query) -> Iterator[str]:
    """Return what is special about the documents of a match."""
    arrived = [doc.id for doc in case.documents]
    known = {doc.id: doc for doc in reversed(case.documents)}
    if any("@" in document for document in match[1]):
        yield "new version"
        return
    if any(len(known[document].streams) > 1 for document in match[1]):
        yield "document of two streams"
    if query.right is not None:
        first, second = (known[document] for document in match[1])
        distance = second.timestamp - first.timestamp
        if abs(distance) == query.window:
            yield "at the edge of the window"
        if distance == 0:
            yield "at the same time"
        if distance > 0 and arrived.index(second.id) < arrived.index(first.id):
            yield "later part arrived first"


@dataclass(frozen=True, slots=True)
class Counts:
    """The subscriptions of some cases, those with matches, and what these contain."""

    subscribed: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def add(self, case: Case) -> None:
        """Count a case."""
        subscribed, seen = self.subscribed, self.seen
        expected = matches(case.events, case.lateness)
        queries = {subscription.name: subscription.query for subscription in case.subscriptions}
        fired = {match[0] for match in expected}
        subscribed["all"] += len(queries)
        subscribed["with matches"] += len(fired)
        for name in fired:
            seen.update(feature for feature, test in FEATURES.items() if test(queries[name]))
        seen.update({s for match in expected for s in _situations(case, match, queries[match[0]])})
        seen["came late"] += isinstance(case.events[0], Push)
        seen["went early"] += any(isinstance(event, Unsubscribe) for event in case.events)
        seen["lost to lateness"] += matches(case.events, dict.fromkeys("SR", 10**9)) != expected


# -- Properties ------------------------------------------------------------------------------


def _same_text() -> Subscription:
    """Return a subscription that pairs elements of equal text at most three ticks apart."""
    x, y = (Block("S", Step("descendant", "a", name)) for name in "xy")
    atoms = (ValueJoin(Operand("x"), "=", Operand("y")),)
    return Subscription("Q", Query(x, y, "JOIN", 3, atoms), updates=True)


def _late() -> Case:
    """Return a case in which a document comes when its partner is no longer kept."""
    arrived = [Doc(("S",), f"d{n}", t, b"<a>u</a>") for n, t in enumerate((0, 8, 1, 6), start=1)]
    return Case(plain([_same_text()], arrived))


def _changes() -> Case:
    """Return a case in which someone comes late and goes early, and a document changes."""
    d1, d2, d3, d4 = (Push(Doc(("S",), f"d{t}", t, b"<a>u</a>")) for t in range(1, 5))
    changed = Push(replace(d2.document, xml=b"<a>u<!--changed--></a>"))
    return Case((d1, Subscribe(_same_text()), d2, changed, d3, Unsubscribe("Q"), d4))


@examples(10)
@given(case=cases(), cuts=CUTS)
@example(case=_late(), cuts=[False])
def test_engine_equals_oracle(case: Case, cuts: list[bool]) -> None:
    _agrees(run(case, cuts), case)


@examples(8)
@given(case=histories(), cuts=CUTS)
@example(case=_changes(), cuts=[False])
def test_engine_equals_oracle_while_people_come_and_go(case: Case, cuts: list[bool]) -> None:
    _agrees(run(case, cuts), case)


@examples(3)
@given(case=cases(), cuts=CUTS)
def test_output_does_not_depend_on_batch_cuts(case: Case, cuts: list[bool]) -> None:
    once = frozenset(run(case, ONE_BATCH))
    assert frozenset(run(case, ONE_BY_ONE)) == once
    _agrees(run(case, cuts), case)


@examples(3)
@given(pair=shuffles(), cuts=CUTS)
def test_output_does_not_depend_on_order_of_arrival_within_lateness(
    pair: tuple[Case, Case], cuts: list[bool]
) -> None:
    in_order, shuffled = pair
    found = run(shuffled, cuts)
    assert frozenset(found) == frozenset(run(in_order, cuts))
    _agrees(found, in_order)


@examples(3)
@given(case=cases(), data=st.data())
def test_output_does_not_depend_on_the_order_of_subscribing(
    case: Case, data: st.DataObject
) -> None:
    subscribing = data.draw(st.permutations([e for e in case.events if isinstance(e, Subscribe)]))
    other = replace(case, events=(*subscribing, *map(Push, case.documents)))
    assert frozenset(run(other)) == frozenset(run(case))


@examples(3)
@given(case=histories(), cuts=CUTS, data=st.data())
def test_a_file_closed_and_opened_again_changes_nothing(
    case: Case, cuts: list[bool], data: st.DataObject
) -> None:
    pause = data.draw(st.integers(0, len(case.events)))
    found = run_in_file(case, cuts, pause)
    _agrees(found, case)
    assert frozenset(found) == frozenset(run(case, cuts))


class Elsewhere(xscl.Engine):
    """An engine whose documents were shredded elsewhere, but for some of them."""

    def __init__(self, shares: Sequence[int], stale: Sequence[bool]) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._artefacts = Artefacts(Path(self._folder.name) / "patterns")
        self._portions = Path(self._folder.name) / "portion"
        self._loaded = Loaded()
        self._shares, self._stale = cycle(shares), cycle(stale)
        self.host.ingest.publish_patterns(self._artefacts)

    def close(self) -> None:
        super().close()
        self._folder.cleanup()

    def push(self, documents: Iterable[xscl.Document] | xscl.Document, **_: Any) -> PushResult:
        assert isinstance(documents, list)
        if not next(self._stale):
            self.host.ingest.publish_patterns(self._artefacts)
        parts = list[Part]()
        while rest := documents[sum(part.count for part in parts) :]:
            share = rest[: next(self._shares)]
            parts.append(Part(self._shredded(share), 0, len(share)))
            parts.append(Part(None, 0, len(rest[len(share) :][:1])))
        return self.host.ingest.push(documents, parts=parts)

    def _shredded(self, documents: Sequence[xscl.Document]) -> Portion:
        version = current(self._artefacts.directory)
        assert version is not None
        automaton = self._loaded.of(self._artefacts.directory, version)
        assert automaton is not None
        write_portion(self._portions, portion_of(automaton, version, texts_of(documents)))
        return read_portion(self._portions)


@examples(3)
@given(
    case=histories(),
    cuts=CUTS,
    shares=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    stale=st.lists(st.booleans(), min_size=1, max_size=4),
)
def test_documents_may_be_shredded_elsewhere(
    case: Case, cuts: list[bool], shares: list[int], stale: list[bool]
) -> None:
    found = run(case, cuts, lambda: Elsewhere(shares, stale))
    _agrees(found, case)
    assert found == run(case, cuts)


# -- Planted faults --------------------------------------------------------------------------


def _wider(query: Query) -> Query:
    return query if query.window is None else replace(query, window=query.window + 1)


def _narrower(query: Query) -> Query:
    return query if query.window is None else replace(query, window=query.window - 1)


def _swapped(query: Query) -> Query:
    """Return the query with the documents of the two sides exchanged."""
    if query.right is None:
        return query
    joins = [replace(join, left=join.right, right=join.left) for join in _joins(query)]
    others = [atom for atom in query.atoms if isinstance(atom, Restriction)]
    return replace(query, left=query.right, right=query.left, atoms=(*joins, *others))


def _on_blocks(change: Callable[[Step], Step]) -> Callable[[Query], Query]:
    def changed(query: Query) -> Query:
        left = Block(query.left.stream, change(query.left.step))
        if query.right is None:
            return replace(query, left=left)
        return replace(query, left=left, right=Block(query.right.stream, change(query.right.step)))

    return changed


def _without_branches(step: Step) -> Step:
    """Return the pattern without its existential branches."""
    then = None if step.then is None else _without_branches(step.then)
    kept = tuple(condition for condition in step.conditions if not _is_branch(condition))
    return replace(step, conditions=kept, then=then)


def _is_branch(condition: Condition) -> bool:
    return all(step.variable is None for step in _condition_steps(condition))


def _loosened(step: Step) -> Step:
    """Return the pattern with every `/` of its paths and nested paths as `//`."""
    then = None if step.then is None else _loosened(step.then)
    nested = tuple(
        Exists(_loosened(condition.step)) if isinstance(condition, Exists) else condition
        for condition in step.conditions
    )
    axis: Axis = "descendant" if step.axis == "child" else step.axis
    return replace(step, axis=axis, conditions=nested, then=then)


def _fewer_joins(query: Query) -> Query:
    return replace(query, atoms=query.atoms[:1])


def _any_time(query: Query) -> Query:
    return replace(query, operator="JOIN")


FAULTS: dict[str, Callable[[Query], Query]] = {
    "window one tick too wide": _wider,
    "window one tick too narrow": _narrower,
    "sides swapped": _swapped,
    "branches dropped": _on_blocks(_without_branches),
    "child taken for descendant": _on_blocks(_loosened),
    "value joins dropped": _fewer_joins,
    "FOLLOWED BY taken for JOIN": _any_time,
}


def _faulty(case: Case, fault: Callable[[Query], Query]) -> Counter[Match]:
    """Return what the oracle finds when its queries, not the engine's, have a fault."""
    events = tuple(
        replace(event, subscription=_mutated(event.subscription, fault))
        if isinstance(event, Subscribe)
        else event
        for event in case.events
    )
    return matches(events, case.lateness)


def _mutated(subscription: Subscription, fault: Callable[[Query], Query]) -> Subscription:
    return replace(subscription, query=fault(subscription.query))


def _sensitive() -> Case:
    """Return a case in which each fault shows: edges, equal times, near misses of the pattern."""
    nested = (Exists(Step("child", "b", "x2")), Exists(Step("child", "c")))
    left = Step("descendant", "a", "x1", (*nested, Exists(Step("descendant", "d", "x3"))))
    nested = (Exists(Step("child", "b", "y2")), Exists(Step("child", "d", "y3")))
    right = Step("descendant", "a", "y1", nested)
    atoms = tuple(ValueJoin(Operand(f"x{n}"), "=", Operand(f"y{n}")) for n in (2, 3))
    query = Query(Block("S", left), Block("S", right), "FOLLOWED BY", 3, atoms)
    whole = b"<a><b>u</b><c/><d>v</d></a>"
    without_branch, deeper = b"<a><b>u</b><d>v</d></a>", b"<a><z><b>u</b></z><c/><d>v</d></a>"
    other_value = b"<a><b>u</b><c/><d>w</d></a>"
    arrived = (
        (0, whole),
        (3, whole),
        (4, whole),
        (4, whole),
        (5, without_branch),
        (6, deeper),
        (7, other_value),
    )
    documents = [Doc(("S",), f"d{n}", t, xml) for n, (t, xml) in enumerate(arrived, start=1)]
    return Case(plain([Subscription("Q", query)], documents))


@pytest.fixture(scope="module")
def fixed() -> list[tuple[Case, Counter[Match]]]:
    """Return the same few cases on every run, each with what the engine delivers."""
    made = [_sensitive()]

    @settings(examples(10), derandomize=True, database=None, phases=[Phase.generate])
    @given(cases())
    def collect(case: Case) -> None:
        made.append(case)

    collect()
    found = [(case, Counter(d.match for d in run(case, ONE_BATCH))) for case in made]
    assert all(matches(case.events, case.lateness) == delivered for case, delivered in found)
    return found


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_planted_fault_is_found(
    fixed: list[tuple[Case, Counter[Match]]], fault: Callable[[Query], Query]
) -> None:
    assert any(_faulty(case, fault) != found for case, found in fixed)


# -- Worth of the cases ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def many() -> Counts:
    """Count many cases of the same strategies, by the oracle alone: rare features need them."""
    counts = Counts()

    @settings(examples(120), derandomize=True, database=None, phases=[Phase.generate])
    @given(cases() | histories())
    def count(case: Case) -> None:
        counts.add(case)

    count()
    return counts


def test_at_least_a_third_of_the_subscriptions_had_matches(many: Counts) -> None:
    assert 3 * many.subscribed["with matches"] >= many.subscribed["all"] > 0


@pytest.mark.parametrize("feature", [*FEATURES, *SITUATIONS])
def test_each_feature_occurred_in_a_match(many: Counts, feature: str) -> None:
    assert many.seen[feature] > 0
