"""Stories: components of matches, the same in any cuts and restarts, as plain Python finds them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import xscl
from tests.examples import examples
from tests.xscl.failing_commits import failing_commit
from xscl.engine.story_log import Story, StoryLog
from xscl.errors import XsclError
from xscl.subscriptions.matches import MatchSequence

SHARED = "S//a->x[.//t->u] JOIN{u = v AND x/n < y/n, 100} S//a->y[.//t->v]"
FORMS = (
    SHARED,
    f"SELECT DISTINCT * FROM {SHARED}",
    "S//a->x[.//t->u] FOLLOWED BY{u = v, 3} S//a->y[.//t->v]",
    "S//a->x[.//t->u] NEXT{u = v} S//a->y[.//t->v]",
)


def document(number: int, topics: Iterable[int]) -> xscl.Document:
    texts = "".join(f"<t>{topic}</t>" for topic in sorted(topics))
    return xscl.Document("S", f"d{number}", number, f"<a><n>{number}</n>{texts}</a>".encode())


def components(matches: MatchSequence) -> set[frozenset[str]]:
    """The definition: documents that a chain of matches connects."""
    found: list[set[str]] = []
    for match in matches:
        met = [one for one in found if not one.isdisjoint(match.names)]
        found = [one for one in found if one not in met]
        found.append(set(match.names).union(*met))
    return set(map(frozenset, found))


def shown(stories: Iterable[Story]) -> dict[str, frozenset[str]]:
    return {one.id: frozenset(source.document for source in one.sources) for one in stories}


TOPICS = st.frozensets(st.integers(1, 4), min_size=1, max_size=2)


@examples(60)
@given(st.lists(TOPICS, min_size=2, max_size=9), st.sampled_from(FORMS), st.data())
def test_stories_are_the_components_of_matches(
    topics: list[frozenset[int]], query: str, data: st.DataObject
) -> None:
    documents = [document(number, each) for number, each in enumerate(topics, 1)]
    cuts = sorted({0, len(documents), *data.draw(st.lists(st.integers(0, len(documents))))})
    with xscl.Engine() as plain, tempfile.TemporaryDirectory() as folder:
        plain.subscribe("s", query, stories=True)
        for one in documents:
            plain.push(one)
        expected = components(plain.matches("s"))
        path, name = Path(folder) / "state", "s"
        with xscl.Engine(path) as engine:
            engine.subscribe(name, query, stories=True)
        for start, end in pairwise(cuts):
            with xscl.Engine(path) as engine:
                match data.draw(st.sampled_from(["", "rename", "again", "pause", "fail"])):
                    case "rename":
                        engine.edit(name, rename=f"{name}s")
                        name += "s"
                    case "again":
                        engine.edit(name, stories=False)
                        engine.edit(name, stories=True)
                    case "pause":
                        engine.edit(name, paused=True)
                        engine.edit(name, paused=False)
                    case "fail":
                        with failing_commit(), pytest.raises((OSError, XsclError)):
                            engine.push(documents[start:end] or documents[:1])
                    case _:
                        pass
                engine.push(documents[start:end])
        with xscl.Engine(path) as engine:
            found = shown(engine.stories(name))
            assert set(found.values()) == expected == components(engine.matches(name))
            assert found.keys() == {one.id for one in plain.stories("s")}
            for story in engine.stories(name, merged=True):
                assert story.total == len(found.get(story.id, ()))
                assert story.merged_into is None or story.merged_into in found
            heads = engine.log.page(name, heads=True).matches
            assert {one.position for one in heads} == {one.last for one in engine.stories(name)}
            added = [
                name for one in _grown(engine, name) if one.growth for name in one.growth.documents
            ]
            assert sorted(added) == sorted(name for names in expected for name in names)
    event(f"{len(expected)} stories")


def _grown(engine: xscl.Engine, name: str) -> list[Story]:
    found, after, page = list[Story](), 0, StoryLog(engine.log).grown(name, 0, 2)
    while page.stories:
        found += page.stories
        after = page.end
        page = StoryLog(engine.log).grown(name, after, 2)
    return found


def test_of_two_stories_the_first_keeps_its_id(engine: xscl.Engine) -> None:
    engine.subscribe("s", SHARED, stories=True)
    engine.push([document(1, [1]), document(2, [2]), document(3, [2]), document(4, [1])])
    first, second = engine.stories("s")[::-1]
    assert [source.document for source in first.sources] in (["d2", "d3"], ["d1", "d4"])
    by_documents = {names: id for id, names in shown([first, second]).items()}
    kept, taken = (by_documents[frozenset(names)] for names in (("d2", "d3"), ("d1", "d4")))
    engine.push(document(5, [1, 2]))
    assert shown(engine.stories("s")) == {kept: {"d1", "d2", "d3", "d4", "d5"}}
    assert {one.id: one.merged_into for one in engine.stories("s", merged=True)} == {
        kept: None,
        taken: kept,
    }
    (last,) = (one.growth for one in _grown(engine, "s") if one.growth and one.growth.merged)
    assert (last.merged, last.is_first) == ((taken,), False)
    assert set(last.documents) == {"d1", "d4", "d5"}
    assert engine.stories("s")[0].id == kept == engine.stories("s", limit=1)[0].id


def test_a_story_is_called_after_what_founded_it() -> None:
    """The third document, whose arrival completed the first match; in any cuts."""
    documents = [document(n, topics) for n, topics in enumerate([[1], [2], [2], [1, 2]], 1)]
    with xscl.Engine() as at_once, xscl.Engine() as apart:
        for engine in (at_once, apart):
            engine.subscribe("s", SHARED, stories=True)
        at_once.push(documents)
        for one in documents:
            apart.push(one)
        assert shown(at_once.stories("s")) == shown(apart.stories("s"))


def test_what_was_taken_over_moves_on(engine: xscl.Engine) -> None:
    engine.subscribe("s", SHARED, stories=True)
    for number, topics in enumerate([[1], [1], [2], [2], [3], [3], [2, 3], [1, 2]], 1):
        engine.push(document(number, topics))
    (only,) = engine.stories("s")
    assert only.total == 8
    assert [one.merged_into for one in engine.stories("s", merged=True)] == [
        None,
        only.id,
        only.id,
    ]


def test_a_story_of_what_was_kept_is_that_of_what_arrived() -> None:
    documents = [document(number, [number % 2]) for number in range(1, 9)]
    kept = xscl.Retention(history=1_000)
    with xscl.Engine() as live, xscl.Engine(retention=kept) as late:
        live.subscribe("s", SHARED, stories=True)
        for engine in (live, late):
            engine.push(documents[:6])
        late.subscribe("s", SHARED, stories=True, history=True)
        for engine in (live, late):
            engine.push(documents[6:])
        assert shown(live.stories("s")) == shown(late.stories("s"))
        assert len(shown(late.stories("s"))) == 2


def test_stories_leave_with_their_matches() -> None:
    tables = ("story", "story_document")
    with xscl.Engine() as engine:
        for name in ("s", "other"):
            engine.subscribe(name, SHARED, stories=True)
        engine.push([document(number, [1]) for number in range(1, 4)])

        def keys() -> set[tuple[str, str]]:
            store = engine.transactions.store
            rows = (store.rows(f"SELECT DISTINCT key FROM state.{table}") for table in tables)
            return {
                (table, row["key"])
                for table, found in zip(tables, rows, strict=True)
                for row in found
            }

        assert keys() == {(table, name) for table in tables for name in ("s", "other")}
        engine.unsubscribe("s")
        assert shown(engine.stories("s"))  # as long as its matches are kept
        engine.unsubscribe("s", purge=True)
        engine.edit("other", stories=False)
        assert keys() == set()
        engine.edit("other", stories=True)
        assert keys() == {(table, "other") for table in tables}
        engine.retain(xscl.Retention(matches=10))
        engine.push(document(1_000, [2]))
        engine.push(document(1_001, [3]))
        assert keys() == set()


@pytest.mark.parametrize(
    ("query", "language", "message"),
    [
        ("S//a->x", "xscl", "stories are for queries with two blocks or more"),
        ("SELECT * FROM S FILTER {1 = 1}", "cel", "stories are for queries in XSCL"),
    ],
)
def test_stories_of_single_documents_are_refused(query: str, language: str, message: str) -> None:
    with xscl.Engine() as engine:
        engine.stream("S", attributes={"n": float})
        with pytest.raises(XsclError, match=message):
            engine.subscribe("s", query, language=language, stories=True)
        engine.subscribe("t", SHARED, stories=True)
        with pytest.raises(XsclError, match=message):
            engine.edit("t", query, language=language)
        assert [one.name for one in engine.subscriptions] == ["t"]
