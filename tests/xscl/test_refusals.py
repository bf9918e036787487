"""What is refused is refused before anything changes: nothing has to be read again for it."""

import pytest

import xscl
from xscl.errors import XsclError
from xscl.results import XSCL

READS_P = "P//a->x JOIN{x=y, 10} P//a->y"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("S//a->x FOLLOWED BY", XSCL),
        ("late//a PUBLISH P", XSCL),
        ("late//a->x FOLLOWED BY{x=y, 10} S//a->y PUBLISH P", XSCL),
        ("P//a PUBLISH P", XSCL),
        ("SELECT k FROM late PUBLISH P", "cel"),
        ("SELECT k FROM FILTER{missing = 1}(S)", "cel"),
    ],
)
def test_a_refused_query_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, text: str, language: str
) -> None:
    with xscl.Engine() as engine:
        engine.stream("late", lateness=1000, attributes={"k": str})
        engine.stream("S", attributes={"k": str})
        engine.subscribe("reader", READS_P)
        before = engine.sql("FROM subscriptions").to_pylist()
        with monkeypatch.context() as watched:
            watched.setattr(xscl.Engine, "_load", _never)
            with pytest.raises(XsclError):
                engine.subscribe("refused", text, language=language)
            with pytest.raises(XsclError):
                engine.subscribe("reader", READS_P)
        assert engine.sql("FROM subscriptions").to_pylist() == before


def test_readers_and_a_late_publisher_that_come_together() -> None:
    with xscl.Engine() as engine:
        engine.stream("late", lateness=1000)
        with pytest.raises(XsclError, match="'P'"):
            engine.subscribe_many([("reader", READS_P), ("publisher", "late//a PUBLISH P")])
        assert engine.subscriptions == ()
        engine.subscribe_many([("publisher", "late//a PUBLISH P"), ("reader", READS_P)])


def _never(engine: xscl.Engine) -> None:
    raise AssertionError("the engine read its store again")
