"""The engine equals the oracle, however its input is cut, ordered, registered or kept.

Each case is a few random documents and subscriptions (`tests.strategies.joins`).  What the
engine delivers is compared, as a multiset, with what `tests.oracle` finds by brute force:
documents, nodes of the join variables, the sequences of all other variables, times.

The properties are worth something only if the cases are: the last tests count in many of them
how many subscriptions had matches and in which of them each feature of the language occurred, and
plant faults in the oracle's queries that the comparison must find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import xscl
from tests.examples import MORE, ROUNDS, cases_of, examples
from tests.oracle.evaluation import Match, matches, named, replay
from tests.oracle.output import nodes_of
from tests.oracle.queries import And as AllOf
from tests.oracle.queries import (
    Case,
    Comparison,
    Constant,
    Doc,
    FollowedBy,
    Formula,
    Join,
    Push,
    Query,
    Subscribe,
    Subscription,
    TextTest,
    Unsubscribe,
    Var,
    blocks,
    bound,
    subscribed_first,
)
from tests.oracle.steps import (
    And,
    Axis,
    Block,
    Compare,
    Condition,
    Exists,
    Not,
    Or,
    Step,
    StringTest,
)
from tests.strategies.joins import cases, histories, shuffles
from tests.xscl.engine.player import CUTS, Delivered, played, played_in_file

ONE_BATCH, ONE_BY_ONE = (False,), (True,)


# -- What the engine delivers ----------------------------------------------------------------


def run(
    case: Case,
    cuts: Sequence[bool] = ONE_BY_ONE,
    make: Callable[[], xscl.Engine] = xscl.Engine,
) -> list[Delivered]:
    """Return the deliveries of an engine in memory."""
    return played(case, cuts, make).delivered


def _agrees(found: Sequence[Delivered], case: Case) -> None:
    """Fail unless the engine delivered exactly the oracle's matches, each once, with all nodes."""
    expected = replay(case.events, case.lateness)
    queries = {one.name: one.query for one in case.subscriptions}
    assert Counter(made.match for made in found) == Counter(expected.keys())
    assert len({made.id for made in found}) == len(found)
    for made in found:
        rows = expected[made.match]
        _, nodes = nodes_of(queries[made.match[0]], rows)
        numbers = {name: tuple(node.number for node in of) for name, of in nodes.items()}
        assert dict(made.nodes) == numbers
        assert made.times == (rows[0].t0, rows[0].t1)


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
    return [step for block in blocks(query) for step in _steps(block.step)]


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


def _joined(query: Query) -> Join | FollowedBy | None:
    expression = query.expression
    return expression if isinstance(expression, Join | FollowedBy) else None


def _atoms(query: Query) -> Sequence[Formula]:
    joined = _joined(query)
    if joined is None or joined.predicate is None:
        return ()
    return joined.predicate.parts if isinstance(joined.predicate, AllOf) else (joined.predicate,)


def _joins(query: Query) -> list[tuple[Var, str, Var]]:
    """Return the comparisons of variables, as they are written."""
    return [
        (atom.left, atom.operator, atom.right)
        for atom in _atoms(query)
        if isinstance(atom, Comparison)
        and isinstance(atom.left, Var)
        and isinstance(atom.right, Var)
    ]


def _is_constant(atom: Formula) -> bool:
    return isinstance(atom, Comparison | TextTest) and isinstance(atom.right, Constant)


def _unit(query: Query) -> str | None:
    joined = _joined(query)
    return None if joined is None else joined.unit


def _streams(query: Query) -> list[str]:
    return [block.stream for block in blocks(query)]


def _first_step(query: Query) -> Step:
    return blocks(query)[0].step


FEATURES: dict[str, Callable[[Query], bool]] = {
    "one block": lambda q: len(blocks(q)) == 1,
    "JOIN": lambda q: isinstance(q.expression, Join),
    "FOLLOWED BY": lambda q: isinstance(q.expression, FollowedBy),
    "two streams": lambda q: len(set(_streams(q))) == 2,
    "one stream": lambda q: _streams(q) in (["S", "S"], ["R", "R"]),
    "INF": lambda q: ", INF" in q.text(),
    "window left out": lambda q: _unit(q) == "omitted",
    "window in ms": lambda q: _unit(q) == "ms",
    "window 0": lambda q: ", 0}" in q.text(),
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
        max(Counter(v.name for a, _, b in _joins(q) for v in (a, b)).values(), default=0) > 1
    ),
    "!= in the predicate": lambda q: any(operator == "!=" for _, operator, _ in _joins(q)),
    "path in the predicate": lambda q: any(a.step or b.step for a, _, b in _joins(q)),
    "constant in the predicate": lambda q: any(map(_is_constant, _atoms(q))),
    "right side first": lambda q: any(
        a.name not in set(bound(_first_step(q))) for a, _, _ in _joins(q)
    ),
    "variable on an inner step": lambda q: (
        _first_step(q).variable is not None and _first_step(q).then is not None
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
    """Yield the special situations of the documents of a match."""
    names = [named(doc.streams[0], doc.id) for doc in case.documents]
    known = dict(reversed(list(zip(names, case.documents, strict=True))))
    if any("@" in document for document in match[1]):
        yield "new version"
        return
    if any(len(known[document].streams) > 1 for document in match[1]):
        yield "document of two streams"
    if (joined := _joined(query)) is not None:
        first, second = (known[document] for document in match[1])
        distance = second.timestamp - first.timestamp
        if abs(distance) == joined.window:
            yield "at the edge of the window"
        if distance == 0:
            yield "at the same time"
        if distance > 0 and names.index(match[1][1]) < names.index(match[1][0]):
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


def _same_text(stream: str = "S") -> Subscription:
    """Return a subscription that pairs elements of equal text at most three ticks apart."""
    x, y = (Block(one, Step("descendant", "a", name)) for one, name in (("S", "x"), (stream, "y")))
    same = Comparison("=", Var("x"), Var("y"))
    return Subscription("Q", Query(Join(x, y, same, 3)), updates=True)


def _late() -> Case:
    """Return a case in which a document comes when its partner is no longer kept."""
    arrived = [Doc(("S",), f"d{n}", t, b"<a>u</a>") for n, t in enumerate((0, 8, 1, 6), start=1)]
    return Case(subscribed_first([_same_text()], arrived))


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


def _two_streams() -> Case:
    """Return a case in which documents of two streams have one id, and are changed."""
    arrived = [
        Doc(streams, "d", time, b"<a>u</a>" + comment)
        for time, (streams, comment) in enumerate(
            [
                (("S",), b""),
                (("R",), b""),
                (("R",), b""),
                (("S", "R"), b"<!--1-->"),
                (("R",), b"<!--2-->"),
            ]
        )
    ]
    return Case(subscribed_first([_same_text("R")], arrived))


@examples(8)
@given(case=histories(), cuts=CUTS)
@example(case=_changes(), cuts=[False])
@example(case=_two_streams(), cuts=[False, True, False])
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
    found = played_in_file(case, cuts, pause).delivered
    _agrees(found, case)
    assert frozenset(found) == frozenset(run(case, cuts))


# -- Planted faults --------------------------------------------------------------------------


def _on_join(
    change: Callable[[Join | FollowedBy], Join | FollowedBy],
) -> Callable[[Query], Query]:
    """Return the change of a query that changes its join, if there is one."""

    def changed(query: Query) -> Query:
        joined = _joined(query)
        return query if joined is None else replace(query, expression=change(joined))

    return changed


def _longer(ticks: int) -> Callable[[Join | FollowedBy], Join | FollowedBy]:
    def changed(joined: Join | FollowedBy) -> Join | FollowedBy:
        window = None if joined.window is None else joined.window + ticks
        return replace(joined, window=window)

    return changed


def _swapped(joined: Join | FollowedBy) -> Join | FollowedBy:
    """Return the join with the documents of the two sides exchanged."""
    return replace(joined, left=joined.right, right=joined.left)


def _on_blocks(change: Callable[[Step], Step]) -> Callable[[Query], Query]:
    def changed(query: Query) -> Query:
        one, *other = (replace(block, step=change(block.step)) for block in blocks(query))
        joined = _joined(query)
        if joined is None:
            return replace(query, expression=one)
        return replace(query, expression=replace(joined, left=one, right=other[0]))

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


def _fewer_joins(joined: Join | FollowedBy) -> Join | FollowedBy:
    predicate = joined.predicate
    return replace(
        joined, predicate=predicate.parts[0] if isinstance(predicate, AllOf) else predicate
    )


def _any_time(joined: Join | FollowedBy) -> Join | FollowedBy:
    return Join(joined.left, joined.right, joined.predicate, joined.window)


FAULTS: dict[str, Callable[[Query], Query]] = {
    "window one tick too wide": _on_join(_longer(1)),
    "window one tick too narrow": _on_join(_longer(-1)),
    "sides swapped": _on_join(_swapped),
    "branches dropped": _on_blocks(_without_branches),
    "child taken for descendant": _on_blocks(_loosened),
    "value joins dropped": _on_join(_fewer_joins),
    "FOLLOWED BY taken for JOIN": _on_join(_any_time),
}


def _faulty(case: Case, fault: Callable[[Query], Query]) -> Counter[Match]:
    """Return the matches of the oracle with a fault in its queries but not in the engine's."""
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
    both = AllOf(tuple(Comparison("=", Var(f"x{n}"), Var(f"y{n}")) for n in (2, 3)))
    query = Query(FollowedBy(Block("S", left), Block("S", right), both, 3))
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
        (8, whole),
    )
    documents = [Doc(("S",), f"d{n}", t, xml) for n, (t, xml) in enumerate(arrived, start=1)]
    return Case(subscribed_first([Subscription("Q", query)], documents))


@pytest.fixture(scope="module")
def fixed() -> list[tuple[Case, Counter[Match]]]:
    """Return a few cases, each with what the engine delivers."""
    made = [_sensitive(), *cases_of(cases(), 10 * MORE)]
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
    """Count many cases of the same strategies, by the oracle alone: rare features need them.

    The cases of further seeds follow while a feature did not occur in a match.
    """
    counts = Counts()
    for seeded in (None, *range(ROUNDS)):
        for case in cases_of(cases() | histories(), 60 * MORE, seeded):
            counts.add(case)
        if all(counts.seen[feature] for feature in (*FEATURES, *SITUATIONS)):
            break
    return counts


def test_at_least_a_third_of_the_subscriptions_had_matches(many: Counts) -> None:
    assert 3 * many.subscribed["with matches"] >= many.subscribed["all"] > 0


@pytest.mark.parametrize("feature", [*FEATURES, *SITUATIONS])
def test_each_feature_occurred_in_a_match(many: Counts, feature: str) -> None:
    assert many.seen[feature] > 0
