"""The library as programs use it: what it refuses where it is written, and matches as tables."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable

import pytest

import xscl
from xscl.inspection.rebuilt_relations import may_read_values
from xscl.subscriptions.matches import MatchSequence

TWICE = "S//a->x FOLLOWED BY{x=y, 10} S//a->y"


def document(time: int, xml: bytes = b"<a>hi</a>", stream: str = "S") -> xscl.Document:
    return xscl.Document(stream, f"d{time}", time, xml)


WRONG: dict[str, tuple[Callable[[xscl.Engine], object], str]] = {
    "id": (lambda _: xscl.Document("S", 1, 1, b""), "id of a Document is str, not int"),  # type: ignore[arg-type]  # wrong on purpose
    "time": (lambda _: xscl.Document("S", "a", 1.5, b""), "timestamp .* is int, not float"),  # type: ignore[arg-type]  # wrong on purpose
    "text": (lambda _: xscl.Document("S", "a", 1, "<a/>"), "xml .* is bytes, not str: encode"),  # type: ignore[arg-type]  # wrong on purpose
    "stream": (lambda _: xscl.Document(5, "a", 1, b""), "stream of a Document is a name"),  # type: ignore[arg-type]  # wrong on purpose
    "streams": (lambda _: xscl.Document((1,), "a", 1, b""), "stream of a Document is a name"),  # type: ignore[arg-type]  # wrong on purpose
    "a text": (lambda e: e.push("<a/>"), "push takes Documents, not str"),  # type: ignore[arg-type]  # wrong on purpose
    "nothing": (lambda e: e.push(None), "push takes Documents, not NoneType"),  # type: ignore[arg-type]  # wrong on purpose
    "a query": (lambda e: e.subscribe("q", b"S//a"), "a query is str, not bytes"),  # type: ignore[arg-type]  # wrong on purpose
    "a name": (lambda e: e.subscribe(5, "S//a"), "name of a subscription is str, not int"),  # type: ignore[arg-type]  # wrong on purpose
    "a number": (lambda e: e.stream(5), "the name of a stream is str, not int"),  # type: ignore[arg-type]  # wrong on purpose
    "a list": (lambda e: e.stream("S", attributes=["a"]), "is Mapping or None, not list"),  # type: ignore[arg-type]  # wrong on purpose
    "a text of a pair": (lambda e: e.subscribe_many([("a", "S//a"), "b"]), "row 2 is .* not 'b'"),  # type: ignore[list-item]  # wrong on purpose
    "a trial": (lambda e: e.try_query("S//a", since=1.5), "since is str or int or None, not float"),  # type: ignore[arg-type]  # wrong on purpose
    "a place": (lambda e: e.matches(1.5), "a subscription or a place is .* not float"),  # type: ignore[arg-type]  # wrong on purpose
    "a time": (lambda e: e.advance("1 d"), "a time is int, not str"),  # type: ignore[arg-type]  # wrong on purpose
    "a retention": (lambda e: e.retain("30 d"), "a retention is Retention, not str"),  # type: ignore[arg-type]  # wrong on purpose
    "an element": (lambda e: e.push([document(1), "d"]), r"not str \(element 1\)"),  # type: ignore[list-item]  # wrong on purpose
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_types_are_refused_where_they_are_written(name: str) -> None:
    call, message = WRONG[name]
    with xscl.Engine() as engine, pytest.raises(TypeError, match=message):
        call(engine)


def test_a_time_that_no_document_may_have_is_none_of_the_clock(engine: xscl.Engine) -> None:
    for nanoseconds in (1_700_000_000 * 10**9, -(10**30)):
        with pytest.raises(xscl.XsclError, match="is out of range"):
            engine.advance(nanoseconds)
    engine.subscribe("one", "S//a->x")
    assert len(engine.push([document(1)])) == 1


def test_matches_are_tables(engine: xscl.Engine) -> None:
    engine.subscribe("twice", TWICE)
    found = engine.push([document(time) for time in (1, 2, 3)])
    table = found.to_arrow()
    moment = datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC)
    assert table.to_pylist()[0] == {
        "id": found[0].id,
        "subscription": "twice",
        "position": 1,
        "start": moment,
        "end": moment.replace(microsecond=2),
        "documents": ["d1", "d2"],
        "sources": [
            {
                **{"document": name, "stream": "S", "id": name, "version": 1, "root": "a"},
                "title": "",
            }
            for name in ("d1", "d2")
        ],
        "values": [("x", ["hi"]), ("y", ["hi"])],
        "history": False,
    }
    assert engine.matches("twice").to_arrow() == table
    assert found[1:].to_arrow() == table.slice(1)
    assert found[:0].to_arrow().schema == table.schema


def test_matches_of_a_subscription(engine: xscl.Engine) -> None:
    engine.subscribe("twice", TWICE)
    engine.subscribe("each", "S//a->x")
    first = engine.push([document(time) for time in (1, 2)])
    engine.push(document(3))
    assert [match.documents for match in engine.matches("twice")] == [
        *(("d1", "d2"), ("d1", "d3"), ("d2", "d3"))
    ]
    assert len(engine.matches("twice", after=first[-1])) == 2
    with pytest.raises(xscl.UnknownSubscription):
        engine.matches("thrice")


def test_text_in_html_is_escaped_and_bounded(engine: xscl.Engine) -> None:
    engine.subscribe("each", "S//a->x")
    found = engine.push([document(time, b"<a>&lt;b&gt;</a>") for time in range(1, 31)])
    shown = found._repr_html_()
    text = repr(found.matches)
    assert found[0]._repr_html_().count("<tr>") == 2
    assert "<td>S//a-&gt;x</td>" in engine._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert shown.count("<tr>") == 21
    assert "and 10 more" in shown
    assert text.startswith("[Match('each', documents=('d1',), id=")
    assert text.endswith(", ... and 10 more]")
    assert text.count("Match(") == 20


def test_an_engine_shows_what_it_has(engine: xscl.Engine) -> None:
    engine.subscribe("twice", TWICE)
    assert repr(engine) == "<xscl.Engine in memory: 1 subscription>"


def test_matches_in_sql_have_the_values_of_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    with xscl.Engine() as engine:
        engine.subscribe("twice", "S//r[./k->x] FOLLOWED BY{x=y, 9 s} S//r[./k->y][./v->v]")
        engine.subscribe("one", "SELECT DISTINCT * FROM S//r[./k->x]")
        engine.push(document(time, b"<r><k>a</k><k>b</k><v>%d</v></r>" % time) for time in (1, 2))
        rows = engine.sql('SELECT subscription, "values" AS found FROM matches').to_pylist()
        assert [(row["subscription"], dict(row["found"])) for row in rows] == [
            ("one", {"x": ["a", "b"]}),
            ("twice", {"x": ["a"], "y": ["a"], "v": ["2"]}),
            ("twice", {"x": ["b"], "y": ["b"], "v": ["2"]}),
            ("one", {"x": ["a", "b"]}),
        ]
        counted = "SELECT values['v'][1] AS v, count(*) AS n FROM matches GROUP BY 1 ORDER BY 1"
        assert engine.sql(counted).to_pylist() == [{"v": "2", "n": 2}, {"v": None, "n": 2}]
        for form in ("FROM matches", "TABLE matches", "SELECT matches.* FROM matches"):
            assert all(row["values"] for row in engine.sql(form).to_pylist())
        row = engine.sql("SELECT m FROM matches m LIMIT 1").to_pylist()[0]["m"]
        assert dict(row["values"]) == {"x": ["a", "b"]}
        monkeypatch.setattr("xscl.engine.queries.VALUED", 1)
        held = engine.sql("SELECT position FROM matches WHERE values IS NOT NULL")
        assert held.num_rows == 1
        assert engine.sql("SELECT count(*) AS n FROM matches").to_pylist() == [{"n": 4}]


@pytest.mark.parametrize(
    ("query", "may"),
    [
        ("SELECT * FROM matches", True),
        ('SELECT m."values" FROM Matches m', True),
        ("SELECT position FROM matches", True),
        ("SELECT * FROM documents", False),
        ("SELECT valued FROM matches_of", False),
    ],
)
def test_values_are_read_only_for_queries_that_may_use_them(query: str, may: bool) -> None:
    assert may_read_values(query) is may


# -- Matches as data frames ----------------------------------------------------------------


MOMENT = datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC)


def matches(engine: xscl.Engine) -> MatchSequence:
    engine.subscribe("twice", "S//a->x FOLLOWED BY{x=y, 1 d} S//a->y")
    engine.push(xscl.Document("S", f"d{time}", time, b"<r><a>hi</a></r>") for time in (1, 2))
    return engine.matches("twice")


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_data_frame(engine: xscl.Engine, name: str) -> None:
    pytest.importorskip(name, reason=f"{name} is not installed: it is optional")
    found = matches(engine)
    for some in (found, found[:0]):
        frame = some.to_pandas() if name == "pandas" else some.to_polars()
        assert list(frame.columns) == found.to_arrow().column_names
        rows = frame.to_dict("records") if name == "pandas" else frame.to_dicts()
        assert len(rows) == len(some)
        for row in rows:
            assert (row["subscription"], list(row["documents"])) == ("twice", ["d1", "d2"])
            values = {variable: list(texts) for variable, texts in row["values"].items()}
            assert values == {"x": ["hi"], "y": ["hi"]}
            assert row["start"] == MOMENT


def test_matches_are_used_without_both(
    engine: xscl.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    found = matches(engine)
    assert (len(found), found.to_arrow().num_rows) == (1, 1)
    assert found._repr_html_()
    with pytest.raises(ImportError, match="polars"):
        found.to_polars()
