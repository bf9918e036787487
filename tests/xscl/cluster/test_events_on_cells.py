"""Queries of events on cells: the matches of one engine, however cut and dealt to cells."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples, until
from tests.xscl.cluster.histories import Delivered, cluster, delivered
from tests.xscl.cluster.test_cells_properties import CELLS, DEALS, Deal
from tests.xscl.planning.test_event_languages import QUERIES, readings
from tests.xscl.planning.test_event_queries import CUTS, FLAT, flat
from xscl.documents.retention import SERVICE
from xscl.planning.operators.joins import Interleaved, Joins
from xscl.store.consumed_offsets import DIRECT, BatchKey, Beat

EVENTS = {
    **QUERIES,
    "fold": ("SELECT * FROM S FOLD{$1.k = $2.k, $.v < $2.v} S", "cel"),
    "join": ("SELECT * FROM S JOIN{$1.k = $2.k, 3 ms} R", "cel"),
    "published": ("SELECT k, v FROM FILTER{v > 1}(S) PUBLISH P", "cel"),
    "reader": ("SELECT * FROM P NEXT{$1.k = $2.k} P", "cel"),
    "blocks": ("S//k->x NEXT{x = y} R//k->y", "xscl"),
}
PUBLISHER = "published"
"""It is registered before the first document; the others as they are drawn, after it."""


class Player:
    """Registers queries and pushes rows; `push` passes a batch of documents on.

    With `history` queries begin in the past; else the reader of what is published begins first.
    """

    def __init__(
        self, rows: Sequence[tuple[str, str, int, int]], begins: Sequence[int], history: bool
    ) -> None:
        self._documents = [
            flat(number, time, key, value, stream)
            for number, (stream, key, value, time) in enumerate(rows)
        ]
        self._begins = dict(zip(EVENTS, begins, strict=True)) | {PUBLISHER: 0}
        self._history = history
        if not history:
            self._begins["reader"] = 0

    def play(self, engine: xscl.Engine, push: object, cuts: Sequence[bool]) -> None:
        """Play all; registrations come between batches."""
        assert callable(push)
        for stream in "SR":
            engine.stream(stream, attributes=FLAT)
        batch: list[xscl.Document] = []
        for number, one in enumerate(self._documents):
            new = [name for name, begin in self._begins.items() if begin == number]
            is_cut = number < len(cuts) and cuts[number]
            if batch and (new or is_cut):
                push(batch)
                batch = []
            for name in new:
                query, language = EVENTS[name]
                begins_late = self._history and name != PUBLISHER
                engine.subscribe(name, query, language=language, history=begins_late)
            batch.append(one)
        push(batch)


def by_cells(player: Player, cuts: Sequence[bool], deal: Sequence[int]) -> Delivered:
    numbers = count(1)
    with cluster(CELLS, Deal(deal)) as driver:

        def consume(batch: list[xscl.Document]) -> None:
            number = next(numbers)
            driver.consume(batch, BatchKey(DIRECT, number, number))

        player.play(driver.engine, consume, cuts)
        driver.flush()
        return delivered(driver.engine)


@pytest.mark.hypothesis
@pytest.mark.parametrize("history", [False, True])
def test_cells_find_the_events_of_one_engine(history: bool) -> None:
    """The two sides cut the input at other places."""
    matched = set[str]()

    @examples(8)
    @given(
        readings(),
        CUTS,
        CUTS,
        DEALS,
        st.lists(st.integers(0, 5), min_size=len(EVENTS), max_size=len(EVENTS)),
    )
    def property_holds(
        rows: list[tuple[str, str, int, int]],
        cuts: list[bool],
        other: list[bool],
        deal: list[int],
        begins: list[int],
    ) -> None:
        player = Player(rows, begins, history)
        with xscl.Engine() as engine:
            engine.retain(SERVICE)  # as a driver does
            player.play(engine, engine.push, cuts)
            engine.flush()
            expected = delivered(engine)
        assert by_cells(player, other, deal) == expected
        matched.update(expected)

    property_holds()
    until(lambda: len(matched) > len(EVENTS) // 2, property_holds)
    assert len(matched) > len(EVENTS) // 2


def test_instants_of_calendars_pass_in_the_cells() -> None:
    """Also those that a batch without documents of the cell passes, before a registration."""
    minute = 60_000_000
    query = "SELECT at FROM AT '* * * * *'"
    found = []
    for cells in (0, 2):
        with cluster(2, lambda one: len(one.name) % 2) as driver, xscl.Engine() as single:
            engine = driver.engine if cells else single
            engine.subscribe("minutes", query, language="cel")
            for number in range(1, 6):
                documents = [xscl.Document("T", f"d{number}", number * minute, b"<a/>")]
                if cells:
                    driver.consume(documents, BatchKey(DIRECT, number, number))
                else:
                    engine.push(documents)
                if number == 3:
                    engine.subscribe("later", query, language="cel")
            found.append(delivered(engine))
    assert found[0] == found[1]
    assert len(found[0]["minutes"]) > len(found[0]["later"]) > 0


def test_a_push_that_a_cell_repeats_numbers_instants_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An instant has a number before all documents that a later subscription sees."""
    second = 1_000_000
    query = "AT '* * * * *'->t FOLLOWED BY{1 h} S//a"
    begin = Joins.begin

    def undo(self: Joins, *, several: bool) -> None:
        if several:
            raise Interleaved
        begin(self, several=several)

    monkeypatch.setattr(Joins, "begin", undo)
    with cluster(1) as driver, xscl.Engine() as engine:

        def push(number: int, times: Sequence[int], beats: Sequence[Beat] = ()) -> None:
            documents = [xscl.Document("S", f"d{time}", time * second, b"<a/>") for time in times]
            batch = BatchKey(DIRECT, number, number, tuple(beats))
            driver.consume(documents, batch)
            engine.push(documents, source=batch)

        driver.engine.subscribe("before", query)
        engine.subscribe("before", query)
        push(1, [3601, 3602], [Beat(2, 3665 * second)])
        driver.engine.subscribe("after", query)
        engine.subscribe("after", query)
        push(2, [3670])
        assert delivered(driver.engine) == delivered(engine)
        assert list(delivered(engine)) == ["before"]
