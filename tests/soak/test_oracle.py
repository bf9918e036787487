"""The oracle finds what is planted: each kind of loss, of doubles, of inventions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import xscl
from tests.soak.oracle import (
    HITS,
    KINDS,
    TOLD_AS_STORIES,
    Printed,
    Seen,
    Sent,
    composites,
    differences,
    matches_of,
)
from xscl.store.store import Store
from xscl.store.store_errors import DATABASE

MINUTE = 60_000_000
ITEMS = ("feed#one", "feed#two")


@dataclass
class Known:
    """A store that has taken in what was sent, and what is known of it."""

    database: Path
    sent: Sent
    printed: Printed

    def wrong(self) -> str:
        return "; ".join(differences(self.database, [self.sent], ITEMS, self.printed))


@pytest.fixture
def known(tmp_path: Path) -> Known:
    sent, database = Sent("P0", "pairs-0"), tmp_path / DATABASE
    with xscl.Engine(database) as engine:
        for kind, query in KINDS.items():
            name = f"{kind}-0"
            publish = " PUBLISH hits-0" if kind == "pairs" else ""
            stories = kind == TOLD_AS_STORIES
            engine.subscribe(name, query.format(stream="P0") + publish, stories=stories)
            sent.kinds[name] = kind
        engine.subscribe("hits-0", "hits-0//a[./k->x]")
        sent.kinds["hits-0"] = HITS
        for number, key in enumerate("abacab"):
            name, text = f"0-{number}", f"<a><k>{key}</k></a>".encode()
            sent.begin(name, key, number)
            engine.push(xscl.Document("P0", name, number * 4 * MINUTE, text))
            sent.acknowledge(name, number + 0.5)
        engine.push([xscl.Document("known", one, 30 * MINUTE, b"<item/>") for one in ITEMS])
        pairs = matches_of(engine, "pairs-0")
    seen = Seen(is_once=True)
    for id, documents in pairs:
        seen.note({"id": id, "matches": [{"documents": documents}]})
    sent.seen["events"] = seen
    return Known(database, sent, Printed(Counter(id for id, _ in pairs)))


def changed(statement: str) -> Callable[[Known], None]:
    """Return the statement that changes a row of the store."""

    def change(known: Known) -> None:
        with closing(Store(known.database)) as store:
            assert store.fetch(statement) == [(1,)]

    return change


def without_a_result(known: Known) -> None:
    with closing(Store(known.database)) as store:
        store.drop("result", dead=lambda rows: pc.equal(rows["position"], 2))


def with_a_result_twice(known: Known) -> None:
    with closing(Store(known.database)) as store:
        found = store.scan("result")
        again = found.slice(0, 1).to_pylist()[0] | {"position": 999}
        store.append("result", pa.Table.from_pylist([again], found.schema))


def with_another(known: Known) -> None:
    known.sent.begin("0-99", "a", 9.0)
    known.sent.acknowledge("0-99", 9.5)


def of_events(change: Callable[[Seen], object]) -> Callable[[Known], object]:
    return lambda known: change(known.sent.seen["events"])


def came_again(seen: Seen) -> None:
    seen.note({"id": next(iter(seen.matches)), "matches": [{"documents": []}]}, "another")


PLANTED: tuple[tuple[Callable[[Known], object], str], ...] = (
    (with_another, "1 acknowledged documents are lost: ['0-99']"),
    (lambda known: known.sent.refused.add("0-3"), "1 refused documents were taken"),
    (changed("UPDATE state.document SET given = 'x' WHERE given = '0-3'"), "are lost"),
    (changed("UPDATE state.document SET given = 'x' WHERE given = 'feed#two'"), "items"),
    (lambda known: known.sent.kinds.update(nothing="next"), "the subscription nothing is lost"),
    (changed("DELETE FROM state.story_document WHERE rowid = 1"), "next-0: the stories"),
    (without_a_result, "1 lost"),
    (with_a_result_twice, "1 too many"),
    (of_events(lambda seen: seen.matches.popitem()), "1 of 4 matches were not delivered"),
    (of_events(lambda seen: seen.matches.update(m=())), "1 deliveries of matches that are not"),
    (of_events(lambda seen: seen.matches.update(a=seen.matches.pop(min(seen.matches)))), "deliver"),
    (of_events(came_again), "came twice"),
    (of_events(came_again), "came in two messages"),
    (lambda known: known.printed.times.clear(), "printed so many times"),
)


def test_a_whole_store_is_in_order_and_has_matches_of_each_kind(known: Known) -> None:
    assert known.wrong() == ""
    with xscl.Engine(known.database) as engine:
        counts = {name: len(matches_of(engine, name)) for name in known.sent.kinds}
    assert counts == {"pairs-0": 4, "hits-0": 4, "next-0": 3, "not-0": 4}


@pytest.mark.parametrize(("plant", "said"), PLANTED, ids=[said for _, said in PLANTED])
def test_what_is_planted_is_found(
    known: Known, plant: Callable[[Known], object], said: str
) -> None:
    plant(known)
    assert said in known.wrong()


def test_documents_without_an_answer_are_as_the_store_says(known: Known) -> None:
    known.sent.begin("0-99", "a", 9.0)
    assert known.wrong() == ""


def test_pairs_of_a_time_are_due_and_undelivered_ones_are_named() -> None:
    sent = Sent("S", "pairs", seen={"events": Seen(is_once=True)})
    for name, now in (("a", 0.0), ("b", 5.0), ("c", 30.0)):
        sent.begin(name, "k", now)
        sent.acknowledge(name, now + 1)
    assert set(sent.pairs(20)) == {("a", "b")}
    assert list(sent.undelivered(20)) == ["1 of 1 are not delivered by events: ('a', 'b')"]
    assert set(composites("next", sent.acknowledged, {})) == {("a", "b"), ("b", "c")}
