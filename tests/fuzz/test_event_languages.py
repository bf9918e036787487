"""Any text in CEL, SASE and EQL is registered or refused with a place; any events are taken."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_core import CepError, Engine
from cep_core.errors import NameTaken, QueryError
from tests.examples import examples
from tests.fuzz.events import SCHEMAS, usual_events
from tests.fuzz.grammars import event_texts
from tests.fuzz.texts import Texts, smallest

LANGUAGES = ("cel", "sase", "eql")
AT_ONCE = 60
"""Texts of one example."""
FED = 400
"""Characters of the longest text that is fed: alternatives of a run multiply its matches."""


@cache
def texts(language: str) -> Texts:
    return event_texts(language)


def engine(random: Random) -> Engine:
    core = Engine(1)
    rate = random.choice((None, 2.0))
    for name, attributes in SCHEMAS.items():
        core.stream(name, attributes, channel="c" if name in "SU" else None, rate=rate)
    return core


def tried(text: str, language: str, seed: int) -> str:
    """Register a text, feed it, remove it; return "taken" or the code of what it is refused for."""
    random = Random(seed)
    core = engine(random)
    try:
        core.register("q", text, language)
    except QueryError as error:
        require_place(error)
        return error.code
    except NameTaken as error:  # a stream that is there already, by PUBLISH
        return error.code
    core.explain("q")
    if len(text) < FED:
        core.push(usual_events(random, 8))
        core.push(list(usual_events(random, 5, 100)))
    core.close()
    if not core.query("q").publishes:
        core.unregister("q")
    return "taken"


def require_place(error: QueryError) -> None:
    """Require that an error can be shown, and points to something in the text, or to its end."""
    start, end = error.span
    source = error.source
    assert 0 <= start <= end <= len(source)
    assert start < end or start >= len(source.rstrip()), f"no place: {error.message}"
    assert 1 <= error.line <= source.count("\n") + 1
    assert 1 <= error.column <= len(source.split("\n")[error.line - 1]) + 1
    assert error.message in str(error)


def shrunk(text: str, language: str, seed: int) -> str:
    """Return the result of `tried`; an error that no text may raise names the smallest text."""

    def outcome(one: str) -> str:
        try:
            return tried(one, language, seed)
        except Exception as error:
            return f"{type(error).__name__} {error}"[:60]

    try:
        return tried(text, language, seed)
    except Exception as error:
        wrong = outcome(text)
        small = smallest(text, lambda one: outcome(one) == wrong)
        raise AssertionError(f"{wrong} for {small!r}") from error


@pytest.mark.hypothesis
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_is_registered_or_refused_at_a_place_in_it(language: str) -> None:
    outcomes: Counter[str] = Counter()

    @examples(20)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        random = Random(seed)
        for number in range(AT_ONCE):
            outcomes[shrunk(texts(language).text(random), language, number)] += 1

    check()
    total = sum(outcomes.values())
    assert outcomes["taken"] > total // 25
    assert outcomes["query"] > total // 10


@pytest.mark.hypothesis
@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_that_share_a_plan_are_fed_together(language: str) -> None:
    @examples(4)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        random = Random(seed)
        core = engine(random)
        for number in range(AT_ONCE):
            text = texts(language).text(random)
            if len(text) < FED // 2:
                _registered(core, f"q{number}", text, language)
        core.push(usual_events(random, 6))
        core = Engine.restore(core.snapshot())
        for name in core.queries[::2]:
            _unregistered(core, name)
        core.push(list(usual_events(random, 6, 50)))
        core.close()

    check()


def _registered(core: Engine, name: str, text: str, language: str) -> None:
    before = core.stats()
    try:
        core.register(name, text, language)
    except CepError:
        assert core.stats() == before


def _unregistered(core: Engine, name: str) -> None:
    try:
        core.unregister(name)
    except CepError:  # others read what it publishes
        assert name in core.queries


LONG = {
    "items": ("cel", "SELECT " + ", ".join(f"n AS a{i}" for i in range(6_000)) + " FROM S"),
    "stars": ("cel", "SELECT " + "*," * 40_000 + "* FROM S"),
    "sums": (
        "cel",
        "SELECT " + ", ".join(f"SUM(n+{i}) AS a{i}" for i in range(4_000)) + " FROM S AT INSTANT",
    ),
    "groups": ("cel", "SELECT SUM(v) AS m FROM S GROUP BY " + ",".join("n" * 40_000) + " WINDOW 1"),
    "a fold": ("cel", "SELECT * FROM S FOLD{,," + ",".join(["$.n AS a"] * 9_000) + "} S"),
    "a list of types": ("sase", "EVENT ANY(" + ",".join("S" * 40_000) + ") a"),
    "components": ("sase", "EVENT SEQ(" + ",".join(f"S a{i}" for i in range(9_000)) + ")"),
    "tests": ("sase", "EVENT SEQ(S a, S b) WHERE [" + ",".join("n" * 40_000) + "]"),
    "returned": ("sase", "EVENT S a RETURN " + ",".join(f"a.n AS a{i}" for i in range(6_000))),
    "selected": ("eql", "SELECT " + ",".join(f"A.n AS a{i}" for i in range(6_000)) + " FROM S A"),
    "times": ("eql", "SELECT A.n FROM S A" + " @ 1 s" * 5_000),
    "exceptions": ("eql", "SELECT A.n FROM S A" + " \\ T B" * 5_000),
}


@pytest.mark.parametrize(("language", "text"), LONG.values(), ids=list(LONG))
def test_a_long_text_is_refused_soon(language: str, text: str) -> None:
    with pytest.raises(QueryError, match=r"a list has at most 1000|at most 64|more than 100") as e:
        engine(Random(0)).register("q", text, language)
    require_place(e.value)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_query_that_publishes_what_it_reads_is_refused_at_the_name(language: str) -> None:
    text = {"cel": "SELECT * FROM S", "sase": "EVENT S a", "eql": "SELECT * FROM S A"}[language]
    with pytest.raises(QueryError, match="publishes S and reads it") as caught:
        engine(Random(0)).register("q", f"{text} PUBLISH S", language)
    assert caught.value.span == (len(text) + 9, len(text) + 10)
