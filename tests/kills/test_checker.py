"""The checker finds what is planted: each kind of loss, of doubles, of halves, of inventions."""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from feeds.documents import Document
from tests.kills.checker import Found, Input, Match, Verdict, read, verdict
from tests.kills.log import Batch, Log, Sent, at_work, batches, delivered
from tests.kills.victim import set_up
from tests.kills.workload import answer, documents, guid, known, title
from xscl.engine.facade import Engine
from xscl.store.store import Store
from xscl.store.store_errors import DATABASE

BASE = 1_700_000_000_000_000
FEED = "sample"
URL = "http://127.0.0.1:1/feed"
LAST = 3
NONE = (0, 0, 0, 0)


def sent(batch: int, acknowledged: bool = True) -> Batch:
    made = documents(batch, BASE)
    return Batch(batch, tuple(Sent(d.id, d.timestamp, d.xml.decode()) for d in made), acknowledged)


def items(numbers: Iterable[int]) -> list[Document]:
    return [
        Document(
            ("news", "feeds"),
            f"{FEED}#{guid(n)}",
            BASE,
            f"<item><title>{title(n)}</title></item>".encode(),
        )
        for n in numbers
    ]


GIVEN = Input(tuple(sent(number) for number in range(8)), LAST, FEED)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that has taken in what was sent."""
    path = tmp_path_factory.mktemp("kept") / DATABASE
    with Engine(path) as engine:
        set_up(engine, URL)
        for number in range(4):
            engine.push(documents(number, BASE))
        engine.push(items(range(known(LAST))))
        for number in range(4, 8):
            engine.push(documents(number, BASE))
    return path


@pytest.fixture(scope="module")
def found(database: Path) -> Found:
    return read(database)


def judged(found: Found, given: Input = GIVEN, complete: bool = True) -> Verdict:
    return verdict(given, found, complete=complete)


def test_a_whole_store_is_in_order_and_has_matches_of_each_kind(found: Found) -> None:
    assert str(judged(found)) == "all is well"
    assert judged(found).counts == NONE
    names = [match.subscription for match in found.matches]
    least = {"pairs": 20, "hits": 20, "next": 20, "gaps": 3, "news": 3}
    assert {name: names.count(name) >= number for name, number in least.items()} == dict.fromkeys(
        least, True
    )
    assert len(found.rejected) == 3


def test_an_answer_of_the_feed_holds_what_is_known_after_it() -> None:
    assert answer(2) == answer(3) != answer(4)
    assert answer(3).count(b"<item>") == known(3) == 4
    assert answer(900).count(b"<item>") == 60


# -- Planted faults ------------------------------------------------------------------------


def without_match(name: str) -> Callable[[Found], Found]:
    def plant(found: Found) -> Found:
        first = next(match for match in found.matches if match.subscription == name)
        return replace(found, matches=tuple(m for m in found.matches if m is not first))

    return plant


def with_match(match: Match) -> Callable[[Found], Found]:
    return lambda found: replace(found, matches=(*found.matches, match))


def without_documents(*names: str) -> Callable[[Found], Found]:
    def plant(found: Found) -> Found:
        gone = set(names)
        return Found(
            tuple(row for row in found.documents if row[0] not in gone),
            tuple(name for name in found.rejected if name not in gone),
            tuple(m for m in found.matches if not gone & set(m.documents)),
        )

    return plant


def with_document(name: str, version: int = 1) -> Callable[[Found], Found]:
    return lambda found: replace(found, documents=(*found.documents, (name, version)))


@pytest.mark.parametrize("name", ["next", "gaps", "news", "hits"])
def test_a_match_that_is_missing_is_lost(found: Found, name: str) -> None:
    for complete in (True, False):
        assert judged(without_match(name)(found), complete=complete).counts == (1, 0, 0, 0)


def test_a_published_document_that_is_missing_is_lost(found: Found) -> None:
    first = next(match for match in found.matches if match.subscription == "pairs")
    planted = replace(found, documents=tuple(r for r in found.documents if r[0] != first.id))
    assert judged(planted).lost == (f"published document {first.id}",)


def test_a_document_that_is_missing_is_lost_when_all_is_consumed(found: Found) -> None:
    last = without_documents("d28", "d29", "d30", "d31")(found)
    assert set(judged(last).lost) >= {"document d28", "document d30", "document d31"}
    assert "rejected document d29" in judged(last).lost
    waiting = Input((*GIVEN.batches, sent(8)), LAST, FEED)
    assert judged(found, waiting).lost == tuple(f"document d{n}" for n in range(32, 36))
    assert judged(found, waiting, complete=False).counts == NONE
    nobody_knows = Input((*GIVEN.batches, sent(8, acknowledged=False)), LAST, FEED)
    assert judged(found, nobody_knows).counts == NONE


def test_an_item_that_is_missing_is_lost(found: Found) -> None:
    shown = Input(GIVEN.batches, LAST + 1, FEED)
    assert judged(found, shown).lost == (f"document {FEED}#g4", f"document {FEED}#g5")
    assert judged(found, shown, complete=False).counts == NONE


@pytest.mark.parametrize("name", ["d9", "d7", f"{FEED}#g1"])
def test_part_of_a_segment_is_half(found: Found, name: str) -> None:
    assert len(judged(without_documents(name)(found), complete=False).half) == 1


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (with_document("d3"), "document d3 is there 2 times"),
        (with_document("d3@2", 2), "document d3@2 is version 2, and nothing was sent in two"),
        (lambda found: replace(found, rejected=(*found.rejected, "d7")), "rejected document d7 is"),
        (with_match(Match("another", "gaps", ("d4",))), "match gaps d4 is there 2 times"),
    ],
)
def test_what_is_there_twice_is_a_duplicate(
    found: Found, plant: Callable[[Found], Found], said: str
) -> None:
    (line,) = judged(plant(found)).duplicate
    assert line.startswith(said)


def test_an_id_of_two_matches_is_a_duplicate(found: Found) -> None:
    first = found.matches[0]
    planted = with_match(Match(first.id, "gaps", ("d5",)))(found)
    assert judged(planted).duplicate == (f"match id {first.id} is there 2 times",)


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (with_document("d77"), "document d77"),
        (with_document(f"{FEED}#g9"), f"document {FEED}#g9"),
        (with_document("d7"), "document d7"),  # it is malformed
        (lambda found: replace(found, rejected=(*found.rejected, "d8")), "rejected document d8"),
        (with_match(Match("new", "gaps", ("d5",))), "match gaps d5"),
        (with_match(Match("new", "next", ("d0", "d6"))), "match next d0 d6"),
        (with_match(Match("new", "news", ("d1", f"{FEED}#g1"))), f"match news d1 {FEED}#g1"),
        (with_match(Match("new", "hits", ("d1",))), "match hits d1"),
    ],
)
def test_what_was_never_sent_is_unexplained(
    found: Found, plant: Callable[[Found], Found], said: str
) -> None:
    assert judged(plant(found)).unexplained == (said,)


def without_a_result(store: Store) -> None:
    def is_fifth(rows: pa.RecordBatch) -> pa.Array:
        return pc.equal(rows["position"], 5)

    assert store.drop("result", dead=is_fifth) == 1


def with_a_result_twice(store: Store) -> None:
    found = store.scan("result")
    again = found.slice(0, 1).to_pylist()[0] | {"position": 999}
    store.append("result", pa.Table.from_pylist([again], found.schema))


def changed(statement: str) -> Callable[[Store], None]:
    """Return what changes one row by a statement."""

    def change(store: Store) -> None:
        assert store.fetch(statement) == [(1,)]

    return change


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (without_a_result, 0),
        (with_a_result_twice, 1),
        (changed("UPDATE state.document SET given = 'else' WHERE id = 'd31'"), 0),
        (changed("DELETE FROM state.rejected WHERE id = 'd18'"), 2),
        (changed("UPDATE state.rejected SET id = 'else' WHERE id = 'd18'"), 3),
    ],
)
def test_faults_planted_in_a_store_are_found(
    database: Path, plant: Callable[[Store], None], kind: int, tmp_path: Path
) -> None:
    copy = tmp_path / database.name
    copy.write_bytes(database.read_bytes())
    with closing(Store(copy)) as store:
        plant(store)
    assert judged(read(copy)).counts[kind] > 0


# -- The log -------------------------------------------------------------------------------


def test_the_log_says_what_was_sent_and_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert batches(path) == ()
    log = Log(path)
    log.at_work()
    for number in (0, 1):
        log.sent(number, documents(number, BASE))
    log.acknowledged(0)
    log.delivered(["a", "b"])
    Log(path).sent(1, documents(1, BASE))  # again, by the next one
    assert batches(path) == (sent(0), sent(1, acknowledged=False))
    assert delivered(path) == {"a", "b"}
    assert len(at_work(path)) == 1


def test_a_line_that_a_kill_has_cut_is_not_read_and_removed_by_the_next_writer(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    Log(path).delivered(["one"])
    with path.open("a") as file:
        file.write('{"delivered": ["cu')
    assert delivered(path) == {"one"}
    Log(path).delivered(["two"])
    assert delivered(path) == {"one", "two"}
