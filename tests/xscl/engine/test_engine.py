"""The engine's promises that are not about which matches there are."""

from __future__ import annotations

from contextlib import closing

import pytest

import xscl
from templates.state.join_state import PUSHES
from xscl.engine import ingest
from xscl.errors import StoreError, StreamCycle, StreamInUse, StreamsTooDeep

TWICE = "S//a->x FOLLOWED BY{x=y, 10} S//a->y"
SHARED = (
    "S//item->i[./category->c] FOLLOWED BY{c=d, 10} S//item->j[./category->d]",
    b"<item><category>x</category><category>y</category><category>z</category></item>",
)


def document(time: int, xml: bytes = b"<a>k</a>", stream: str = "S") -> xscl.Document:
    return xscl.Document(stream, f"{stream}{time}", time, xml)


def count(engine: xscl.Engine, relation: str) -> int:
    return int(engine.sql(f"SELECT count(*) AS n FROM {relation}")["n"][0].as_py())


# -- Outcomes of pushes --------------------------------------------------------------------


def counts(found: xscl.PushResult) -> tuple[int, int, int, int]:
    return found.accepted, found.unchanged, found.rejected, found.late


def test_a_push_counts_each_document_once(engine: xscl.Engine) -> None:
    engine.subscribe("q", TWICE)
    first = engine.push([document(5), document(6), document(5), document(7, b"<a>")])
    assert counts(first) == (2, 1, 1, 0)
    again = engine.push([document(5), document(6, b"<a>new</a>"), document(7, b"<b>")])
    assert counts(again) == (1, 1, 1, 0)  # a new version is a new document
    assert len(first) == 1
    assert [*first] == list(first.matches) == first[:]
    assert first == engine.matches()
    assert hash(first) == hash(first.matches)
    assert [first[0], *again] == first + again
    assert [*again, first[0]] == list(again) + first
    assert first[-1].documents == list(first)[-1].documents
    with pytest.raises(IndexError):
        first[1]


def test_a_push_counts_documents_that_a_subscription_may_have_missed(engine: xscl.Engine) -> None:
    engine.subscribe("joined", TWICE)
    engine.subscribe("silence", "T//a->x NOT FOLLOWED BY{x = y, 5} T//b->y")
    assert engine.push(document(t, stream=s) for s, t in (("S", 100), ("T", 200))).late == 0
    late = engine.push([document(60), document(60, stream="T"), document(60, stream="unread")])
    assert counts(late) == (3, 0, 0, 2)
    assert late.late == count(engine, "late WHERE docid IN ('S60', 'T/T60', 'unread/unread60')")


def test_the_counts_of_a_consumers_batch(engine: xscl.Engine) -> None:
    engine.subscribe("q", TWICE)
    given = [document(1), document(2), document(3), document(2)]
    heard: list[int] = []
    found = engine.ingest.push(
        given, source=("q", 1), poison={2}, listen=lambda matches: heard.append(len(matches))
    )
    assert (counts(found), len(found), heard) == ((2, 1, 1, 0), 0, [1])
    assert counts(engine.push(given, source=("q", 1))) == (0, 4, 0, 0)


# -- Matches -------------------------------------------------------------------------------


def test_select_distinct_makes_one_match_of_a_pair_of_documents(engine: xscl.Engine) -> None:
    query, xml = SHARED
    engine.subscribe("each", query)
    engine.subscribe("once", f"SELECT DISTINCT * FROM {query}")
    matches = engine.push([document(1, xml), document(2, xml)])
    assert [m.subscription for m in matches].count("each") == 3
    (once,) = [m for m in matches if m.subscription == "once"]
    assert [node.value for node in once.bindings["c"]] == ["x", "y", "z"]
    assert [node.value for node in once.bindings["d"]] == ["x", "y", "z"]


def test_matches_of_the_same_documents_have_ids_of_their_own(engine: xscl.Engine) -> None:
    engine.subscribe("q", "S//a[./b->x] JOIN{x = y} S//a[./c->y]")
    found = engine.push([document(1, b"<a><b>k</b><b>k</b></a>"), document(2, b"<a><c>k</c></a>")])
    assert len({match.id for match in found}) == len(found) == 2


def test_constructed_documents(engine: xscl.Engine) -> None:
    engine.subscribe(
        "q",
        """SELECT <hit n="{y} {{1}}"><t>{x/b}</t>{string(x/b)}{x/@n} &lt;{z}</hit>
           FROM S//a->x[./b->z] FOLLOWED BY{z=y, 10} S//c->y""",
    )
    pushed = [document(1, b'<a n="7"><b>k</b>!</a>'), document(2, b"<c>k</c>")]
    (match,) = engine.push(pushed)
    assert match.xml() == b'<hit n="k {1}"><t><b>k</b></t>k7 &lt;<b>k</b></hit>'


# -- Publishing ----------------------------------------------------------------------------


def test_a_cycle_of_streams_is_refused_and_leaves_nothing(engine: xscl.Engine) -> None:
    engine.subscribe("there", "A//a->x PUBLISH B")
    with pytest.raises(StreamCycle, match="cycle"):
        engine.subscribe("back", "B//a->x PUBLISH A")
    assert [s.name for s in engine.subscriptions] == ["there"]


def test_published_streams_above_one_another_have_an_end(engine: xscl.Engine) -> None:
    """A document and what is made of it have 64 ranks: the next document begins after them."""
    for number in range(1, 63):
        engine.subscribe(f"q{number}", f"p{number - 1}//a->x PUBLISH p{number}")
    engine.subscribe("first", "S//a->x PUBLISH p0")
    for name, query in (
        ("above", "T//a->x PUBLISH S"),
        ("below", "p62//a->x PUBLISH p63"),
        ("aside", "p62//a->x FOLLOWED BY{x=y, 1 h} S//a->y PUBLISH other"),
    ):
        with pytest.raises(StreamsTooDeep, match="a row of more than 63 streams") as caught:
            engine.subscribe(name, query)
        assert caught.value.code == "streams_too_deep"
    engine.subscribe("last", "p62//a->x FOLLOWED BY{x=y, 1 h} p62//a->y")
    engine.push([document(1), document(2)])
    with closing(engine.connect()) as store:
        ranks = store.fetch("SELECT rank, doc FROM state.document ORDER BY rank")
    assert len({rank for rank, _ in ranks}) == len(ranks) == 2 * 64
    assert [match.subscription for match in engine.matches()].count("last") == 1


# -- Subscribing ---------------------------------------------------------------------------


def test_windows_free_the_state(engine: xscl.Engine) -> None:
    engine.subscribe("q", TWICE)
    for time in range(0, 3_000, 100):
        engine.push([document(time)])
        assert count(engine, "R_bin") <= 1 + PUSHES
        assert count(engine, "state.text") <= 1 + PUSHES
    engine.advance(100_000)
    assert (count(engine, "R_bin"), count(engine, "state.text")) == (0, 0)


def test_operators_over_time_free_texts(
    engine: xscl.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A periodic search finds the texts that they release: no join state is evicted with them."""
    monkeypatch.setattr(ingest, "EVICTED_AFTER", 4)
    engine.subscribe("q", "S//a->x NEXT{x = y} S//b->y")
    for time in range(20):
        engine.push(document(time, b"<b>k</b>"))
    assert count(engine, "state.text") <= 1 + 4


# -- Documents -----------------------------------------------------------------------------


def test_a_new_version_reaches_those_who_asked_for_updates(engine: xscl.Engine) -> None:
    engine.subscribe("new", TWICE)
    engine.subscribe("all", TWICE, updates=True)
    engine.push([document(1), xscl.Document("S", "item", 2, b"<a>k</a>")])
    matches = engine.push([xscl.Document("S", "item", 3, b"<a t='2'>k</a>")])
    assert [(m.subscription, m.documents) for m in matches] == [("all", ("S1", "item@2"))]


def test_a_bad_document_is_recorded_and_disturbs_no_other(engine: xscl.Engine) -> None:
    engine.subscribe("q", TWICE)
    bad = xscl.Document("S", "bad", 1, b"<a>k</a")
    assert len(engine.push([document(1), bad, document(2)])) == 1
    (rejected,) = engine.sql("SELECT * FROM rejected").to_pylist()
    assert (rejected["id"], rejected["reason"], rejected["line"]) == ("bad", "xml_syntax", 1)
    with pytest.raises(Exception, match=r"line 1"):
        engine.push([document(3), bad], strict=True)
    assert len(engine.push([document(3)])) == 2


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (xscl.Document("S", "\ud800", 1, b"<a/>"), "name"),
        (xscl.Document("\ud800", "bad", 1, b"<a/>"), "name"),
        (xscl.Document("", "bad", 1, b"<a/>"), "no_stream"),
        (xscl.Document("S", "bad", 1 << 70, b"<a/>"), "timestamp"),
    ],
)
def test_an_impossible_document_is_recorded_too(
    engine: xscl.Engine, bad: xscl.Document, reason: str
) -> None:
    """As a consumer pushes it: `Engine.push` refuses streams that no query can name."""
    engine.subscribe("q", TWICE)
    push = engine.ingest.push
    assert len(push([document(1), bad, document(2)])) == 1
    assert push([bad]) == []
    assert [row["reason"] for row in engine.sql("SELECT * FROM rejected").to_pylist()] == [reason]


def test_what_is_made_of_an_update_is_an_update(engine: xscl.Engine) -> None:
    engine.subscribe("pub", "S//a PUBLISH P", updates=True)
    engine.subscribe("new", "P//a")
    engine.subscribe("all", "P//a", updates=True)
    engine.push([xscl.Document("S", "d", 1, b"<a>1</a>")])
    found = engine.push([xscl.Document("S", "d", 2, b"<a>2</a>")])
    assert [match.subscription for match in found] == ["pub", "all"]


# -- SQL, explain, the store ---------------------------------------------------------------


def test_a_publisher_may_not_make_a_stream_later_than_its_readers_know(engine: xscl.Engine) -> None:
    engine.stream("S", lateness=1000)
    engine.subscribe("reader", "P//a->x JOIN{x=y, 10} P//a->y")
    with pytest.raises(StreamInUse, match="'P'"):
        engine.subscribe("publisher", "S//a PUBLISH P")
    engine.unsubscribe("reader")
    together = [("reader", "P//a->x JOIN{x=y, 10} P//a->y"), ("publisher", "S//a PUBLISH P")]
    with pytest.raises(StreamInUse, match="'P'"):
        engine.subscribe_many(together)
    assert engine.subscriptions == ()
    engine.subscribe_many(reversed(together))


def test_a_match_whose_documents_are_gone_says_so(engine: xscl.Engine) -> None:
    engine.subscribe("q", TWICE)
    matches = engine.push([document(1), document(2)])
    engine.unsubscribe("q", purge=True)
    with pytest.raises(StoreError, match="no longer kept"):
        matches[0].xml()
