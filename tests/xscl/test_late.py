"""Documents too late for operators over time are counted and shown, never lost silently."""

from __future__ import annotations

import xscl


def test_a_document_behind_the_lateness_is_in_late_and_still_joined() -> None:
    with xscl.Engine() as engine:
        engine.stream("S", lateness=2)
        engine.subscribe("next", "S//a[./k->x] NEXT{x = y} S//b[./k->y]")
        engine.subscribe("pairs", "S//a[./k->x] FOLLOWED BY{x = y, 9} S//b[./k->y]")
        engine.push(
            [
                xscl.Document("S", "b", 8, b"<b><k>1</k></b>"),
                xscl.Document("S", "in time", 6, b"<a><k>1</k></a>"),
                xscl.Document("S", "late", 5, b"<a><k>1</k></a>"),
            ]
        )
        found = [(m.subscription, m.documents) for m in (*engine.matches(), *engine.flush())]
        assert sorted(found) == [
            ("next", ("in time", "b")),
            ("pairs", ("in time", "b")),
            ("pairs", ("late", "b")),
        ]
        (row,) = engine.sql("SELECT docid, timestamp, watermark FROM late").to_pylist()
        assert row == {"docid": "late", "timestamp": 5, "watermark": 6}


def test_after_a_flush_what_is_older_is_late() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("not", "S//a->x NOT FOLLOWED BY{x = y, 9} S//b->y")
        engine.push([xscl.Document("S", "a", 1, b"<a>1</a>")])
        assert [match.documents for match in engine.flush()] == [("a",)]
        engine.push([xscl.Document("S", "b", 4, b"<b>1</b>")])
        assert engine.sql("SELECT docid FROM late").to_pylist() == [{"docid": "b"}]


def test_the_clock_can_be_set() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("not", "S//a->x NOT FOLLOWED BY{x = y, 9} S//b->y")
        engine.push([xscl.Document("S", "a", 1, b"<a>1</a>")])
        assert engine.advance(10) == []
        (match,) = engine.advance(11)
        assert (match.documents, match.t0, match.t1) == (("a",), 1, 10)
