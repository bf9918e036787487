"""Edits, pauses and resumptions on cells: the union has the matches of one engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples, until, usually
from tests.oracle.queries import Case
from tests.xscl.cluster.histories import Delivered, by_cells, by_single_engine, cluster, delivered
from tests.xscl.cluster.test_cells_properties import CELLS, DEALS, KINDS, Deal
from tests.xscl.engine.player import CUTS
from xscl.documents.results import Subscription
from xscl.errors import XsclError
from xscl.store.consumed_offsets import DIRECT, BatchKey

EDITED = "histories", "ordered", "mixes", "published", "published in time"
"""Kinds of cases whose subscriptions are edited."""
KINDS_OF_CHANGE = "pause", "resume", "updates", "rename", "replace"
CHANGES = st.lists(
    st.none() | st.tuples(st.integers(0, 3), st.sampled_from(KINDS_OF_CHANGE) | st.integers(0, 3)),
    min_size=6,
    max_size=6,
)
Change = tuple[int, str | int] | None
Dealt = TypeVar("Dealt")


class Editor:
    """Makes the drawn changes, one after each batch; `done` has what came of each."""

    def __init__(self, case: Case, changes: Sequence[Change]) -> None:
        self._queries = [one.query.text() for one in case.subscriptions]
        self._changes = iter(changes)
        self.done: list[tuple[str, str]] = []

    def __call__(self, engine: xscl.Engine) -> None:
        change = next(self._changes, None)
        known = engine.subscriptions
        if change is None or not known:
            return
        one = known[change[0] % len(known)]
        try:
            self._change(engine, one, change[1])
        except XsclError as error:
            self.done.append((one.name, error.code))
        else:
            self.done.append((one.name, str(change[1])))

    def _change(self, engine: xscl.Engine, one: Subscription, change: str | int) -> None:
        if isinstance(change, int):
            engine.edit(one.name, self._queries[change % len(self._queries)])
        elif change == "updates":
            engine.edit(one.name, updates=not one.updates)
        elif change == "rename":
            engine.edit(one.name, rename=f"{one.name} again")
        elif change == "replace":  # the name is used again, with or without its earlier matches
            engine.unsubscribe(one.name, purge=one.updates)
            engine.subscribe(one.name, one.query, updates=one.updates)
        else:
            engine.edit(one.name, paused=change == "pause")


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(EDITED, "published"))
def test_edited_subscriptions_have_the_matches_of_one_engine(kind: str) -> None:
    def by_three(case: Case, cuts: list[bool], deal: list[int], edit: Editor) -> Delivered:
        return by_cells(case, cuts, CELLS, Deal(deal), edit)

    assert_edits_agree(kind, by_three, DEALS)


def assert_edits_agree(
    kind: str,
    play: Callable[[Case, list[bool], list[Dealt], Editor], Delivered],
    deals: st.SearchStrategy[list[Dealt]],
) -> None:
    """Compare cells with one engine where the subscriptions of both are edited, and some are."""
    seen = Counter[str]()

    @examples(5)
    @given(KINDS[kind], CUTS, deals, CHANGES)
    def property_holds(
        case: Case, cuts: list[bool], deal: list[Dealt], changes: list[Change]
    ) -> None:
        one, several = Editor(case, changes), Editor(case, changes)
        expected = by_single_engine(case, cuts, one)
        assert play(case, cuts, deal, several) == expected
        assert one.done == several.done
        if expected:
            seen.update(what for _, what in one.done)

    property_holds()
    until(lambda: bool(seen), property_holds)
    assert seen


# -- By example ------------------------------------------------------------------------------

NUMBERS = count(1)
PAIRS = "S//a->x FOLLOWED BY{x=y, 100} S//a->y"


def pair(name: str, time: int) -> xscl.Document:
    return xscl.Document("S", name, time, b"<a>hi</a>")


Push = Callable[[xscl.Document], object]


def assert_same(steps: Callable[[xscl.Engine, Push], None], cells: dict[str, int]) -> int:
    """Compare the matches after some steps; return their number."""
    with cluster(2, lambda one: cells[one.name]) as driver, xscl.Engine() as engine:

        def consume(document: xscl.Document) -> None:
            number = next(NUMBERS)
            driver.consume([document], BatchKey(DIRECT, number, number))

        steps(driver.engine, consume)
        steps(engine, engine.push)
        found = delivered(driver.engine)
        assert found == delivered(engine)
        return sum(map(len, found.values()))


def test_a_copy_of_a_publisher_is_edited_and_paused_with_it() -> None:
    def steps(to: xscl.Engine, push: Push) -> None:
        to.subscribe("p", f"SELECT <p>{{x}}</p> FROM {PAIRS} PUBLISH P")
        to.subscribe("r", "P//p->x")
        push(pair("d1", 1))
        push(pair("d2", 2))
        to.edit("p", f"SELECT <p>new {{y}}</p> FROM {PAIRS} PUBLISH P")
        push(pair("d3", 3))
        to.edit("p", paused=True)
        push(pair("d4", 4))
        to.edit("p", paused=False)
        push(pair("d5", 5))

    assert assert_same(steps, {"p": 0, "r": 1}) > 4


def test_an_edited_reader_gets_the_publisher_that_it_reads_now() -> None:
    """The copy is made from the log with the edits that its publisher has had since."""

    def steps(to: xscl.Engine, push: Push) -> None:
        to.subscribe("p", "S//never->x")
        to.subscribe("r", "S//a->x")
        push(pair("d1", 1))
        to.edit("p", f"SELECT <p>{{x}}</p> FROM {PAIRS} PUBLISH P")
        push(pair("d2", 2))
        to.edit("r", "P//p->x")
        push(pair("d3", 3))

    assert assert_same(steps, {"p": 0, "r": 1}) >= 3


def test_a_name_that_is_used_again_has_its_own_query() -> None:
    """Nothing is left of the first one: name, key and version are those of the second."""

    def steps(to: xscl.Engine, push: Push) -> None:
        to.subscribe("n", "S//a->x")
        push(pair("d1", 1))
        to.unsubscribe("n", purge=True)
        to.subscribe("n", "S//b->x")
        push(pair("d2", 2))
        push(xscl.Document("S", "d3", 3, b"<b/>"))

    assert assert_same(steps, {"n": 0}) == 1


EVENTS = {
    "cel": (
        "SELECT * FROM S NEXT{$1.k = $2.k} S",
        "SELECT * FROM FILTER{v > 1}(S) NEXT{$1.k = $2.k} S",
    ),
    "sase": ("EVENT SEQ(S a, S b) WITHIN 4 ms", "EVENT SEQ(S a, S b) WHERE [k] WITHIN 4 ms"),
    "eql": ("SELECT * FROM S WHERE v > 1", "SELECT * FROM S WHERE v > 3"),
}


def test_queries_of_events_are_edited() -> None:
    """A subscription changes its query, then its language; another is paused for a while."""

    def steps(to: xscl.Engine, push: Push) -> None:
        to.stream("S", attributes={"k": str, "v": float})
        for language, (query, _) in EVENTS.items():
            to.subscribe(language, query, language=language)
        documents = (
            xscl.Document("S", f"d{n}", n, f"<e><k>{n % 2}</k><v>{n % 5}</v></e>".encode())
            for n in range(1, 13)
        )
        for number, one in enumerate(documents):
            if number == 4:
                for language, (_, query) in EVENTS.items():
                    to.edit(language, query)
            if number == 6:
                to.edit("cel", paused=True)
                to.edit("sase", EVENTS["eql"][0], language="eql")
            if number == 9:
                to.edit("cel", paused=False)
            push(one)

    assert assert_same(steps, {"cel": 0, "sase": 1, "eql": 1}) > 8


def test_queries_with_calendars_find_the_same() -> None:
    """Instants occur in a cell with the documents of others, too."""
    minute = 60_000_000

    def steps(to: xscl.Engine, push: Push) -> None:
        to.subscribe("none", "AT '*/3 * * * *'->t NOT FOLLOWED BY{2 min} S//a")
        to.subscribe("soon", "R//a->x FOLLOWED BY{2 min} AT '*/5 * * * *'->t")
        for number, stream in enumerate("SRRSSRSRRR"):
            name = f"{stream}{number}"
            push(xscl.Document(stream, name, number * 2 * minute, b"<r><a/></r>"))

    assert assert_same(steps, {"none": 0, "soon": 1}) > 4


def test_variables_that_a_cell_has_in_another_order() -> None:
    """The order of registration decides between equal embeddings of a query in its template."""

    def side(*names: str) -> str:
        return "S//e" + "".join(
            f"[./{leaf}->{name}]" for leaf, name in zip("ab", names, strict=True)
        )

    def steps(to: xscl.Engine, push: Push) -> None:
        to.subscribe("a", "S//e[./a->x] FOLLOWED BY{x=y, 100} S//e[./a->y]")
        to.subscribe("b", "S//e[./b->x] FOLLOWED BY{x=y, 100} S//e[./b->y]")
        both = f"{side('x', 'y')} FOLLOWED BY{{x=u AND y=v, 100}} {side('u', 'v')}"
        to.subscribe("both", both)
        to.subscribe("chain", f"({both}) FOLLOWED BY{{u=w, 100}} S//e[./a->w]")
        for number in range(1, 5):
            xml = b"<e><b>2</b><a>1</a></e>"
            push(xscl.Document("S", f"d{number}", number, xml))

    assert assert_same(steps, {"a": 1, "b": 0, "both": 0, "chain": 0}) > 8


def test_equal_queries_with_calendars_in_two_cells_find_each_instant_once() -> None:
    """The streams of composites have other numbers in each engine, and so have their instants."""
    minute = 60_000_000
    query = "AT '*/3 * * * *'->t FOLLOWED BY{2 min} S//a->x"

    def steps(to: xscl.Engine, push: Push) -> None:
        to.subscribe("before", "S//a->x NEXT{x=y} S//a->y")
        to.subscribe("one", query)
        to.subscribe("other", query)
        for number in range(1, 9):
            push(xscl.Document("S", f"d{number}", number * 2 * minute, b"<a>hi</a>"))

    assert assert_same(steps, {"before": 1, "one": 0, "other": 1}) > 8
