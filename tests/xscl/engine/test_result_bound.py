"""The bound of results: more than N answers of an arriving document and a join are none.

What an engine without a bound finds is cut here from the definition, and compared with what an
engine with a small bound finds: whatever the batches, through a restart, and whichever way the
evaluation takes.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import accumulate, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import templates.columns as columns
import templates.model.conjunctive_query as conjunctive_query
import templates.state.value_joins as valuejoins
import xscl
from templates import processor
from templates.model.result_bound import RESULTS
from tests.examples import examples, usually
from tests.xscl.engine.player import cut, engine_after
from xscl.documents.consumed_offsets import BatchKey, Beat
from xscl.engine.ingest import AIM, FIRST, MOST, PushSize
from xscl.planning import truncations
from xscl.planning.truncations import Truncation

Answer = tuple[int, int, int, tuple[int, ...]]
"""Of a result: its row of R_T, both documents, the output nodes."""

QUERIES = (
    "S//r[./a->x] FOLLOWED BY{x = y, 3} S//r[./a->y]",
    "S//r[./a->x] JOIN{x = y, 4} S//r[./b->y]",
    "S//r[./a->x] SYMMETRIC JOIN{x = y, 4} S//r[./a->y]",
    "S//r[./a->x][./b->z] JOIN{x = y AND z = w, 9} S//r[./a->y][./b->w]",
    "S//r[./a->x][./b->z] FOLLOWED BY{x = y AND z != w, 9} S//r[./a->y][./b->w]",
    "S//r[./a->x][./a->z] FOLLOWED BY{x = y AND z = y, 9} S//r[./a->y]",
    "S//r//g->v[.//a->x] FOLLOWED BY{x = y AND v = u, 9} S//r//g->u[./a->y]",
)
LEAVES = st.lists(
    st.tuples(st.sampled_from("abg"), st.sampled_from("uv"), st.booleans()), max_size=7
)
DOCUMENTS = st.lists(st.tuples(LEAVES, st.integers(0, 2)), min_size=2, max_size=6)


Leaves = Sequence[tuple[str, str, bool]]
Drawn = Sequence[tuple[Leaves, int]]
"""The leaves of each document: name, value, and whether it is within a group; and its step."""


def written(leaves: Leaves) -> bytes:
    """Return a document of leaves, some of them within a group."""
    texts = []
    for name, value, grouped in leaves:
        leaf = f"<a>{value}</a>" if name == "g" else f"<{name}>{value}</{name}>"
        texts.append(f"<g>{leaf}</g>" if grouped or name == "g" else leaf)
    return f"<r>{''.join(texts)}</r>".encode()


def documents_of(drawn: Drawn) -> list[xscl.Document]:
    time, made = 0, []
    for number, (leaves, step) in enumerate(drawn):
        time += step - (number % 3 == 2)  # now and then one comes late
        made.append(xscl.Document("S", f"d{number}", time, written(leaves)))
    return made


def body(leaves: str) -> bytes:
    """Return a document of leaves with one value, each named by a letter."""
    return f"<r>{''.join(f'<{leaf}>v</{leaf}>' for leaf in leaves)}</r>".encode()


def numbered(leaves: Sequence[str], step: int = 1) -> list[xscl.Document]:
    """Return documents of such leaves, so many ticks apart."""
    return [xscl.Document("S", f"d{n}", step * n, body(one)) for n, one in enumerate(leaves)]


def pushed(
    queries: Sequence[str],
    batches: Iterable[Sequence[xscl.Document]],
    path: Path | None = None,
    **settings: int,
) -> AbstractContextManager[xscl.Engine]:
    """Return an engine with the queries `q0`, `q1`, ..., after some pushes."""

    def subscribe(engine: xscl.Engine) -> None:
        engine.subscribe_many((f"q{number}", query) for number, query in enumerate(queries))

    return engine_after(batches, subscribe, path, **settings)


def counted(engine: xscl.Engine, name: str | None = None) -> Counter[tuple[str, ...]]:
    """Return the number of matches of documents."""
    return Counter(match.documents for match in engine.matches(name))


def answers(engine: xscl.Engine) -> list[Answer]:
    rows = engine.transactions.store.scan("result", 0).to_pylist()
    return [(row["qid"], row["doc1"], row["doc2"], tuple(row["nodes"])) for row in rows]


def bounded(found: Sequence[Answer], most: int) -> tuple[Counter[Answer], set[tuple[int, int]]]:
    """Return the answers that stay, and the joins and newcomers that were cut."""
    groups: dict[tuple[int, int], list[Answer]] = {}
    for answer in found:
        groups.setdefault((answer[0], max(answer[1], answer[2])), []).append(answer)
    stay = Counter[Answer]()
    for group in groups.values():
        if len(group) <= most:
            stay.update(group)
    return stay, {key for key, group in groups.items() if len(group) > most}


def run(
    documents: Sequence[xscl.Document], cuts: Sequence[bool], most: int, path: Path | None = None
) -> tuple[list[Answer], set[tuple[int, int]]]:
    """Push documents in batches, with a file through a restart after each; return its results."""
    with pushed(QUERIES, cut(documents, cuts), path, result_bound=most) as engine:
        cut_at = engine.transactions.store.fetch("SELECT qid, doc FROM state.cut")
        return answers(engine), set(cut_at)


@contextmanager
def small_parts() -> Iterator[None]:
    """Send even small documents the ways of heavy and dense ones."""
    limits = {
        (valuejoins, "FEW"): 0,
        (valuejoins, "PART"): 6,
        (processor, "UNCOUNTED"): 0,
        (columns, "MOST"): 3,
        (conjunctive_query, "IN_DATABASE"): 3,
    }
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), value in limits.items():
            patch.setattr(module, name, value)
        yield


CUTS = st.lists(st.booleans(), min_size=6, max_size=6)
MANY = 1 << 40


@pytest.mark.parametrize("parts", usually(["usual", "small"], "usual"))
@given(drawn=DOCUMENTS, cuts=CUTS, most=st.integers(1, 12))
@examples(20)
def test_more_answers_than_the_bound_are_none(
    parts: str, drawn: Drawn, cuts: list[bool], most: int
) -> None:
    documents = documents_of(drawn)
    expected, over = bounded(run(documents, cuts, MANY)[0], most)
    with small_parts() if parts == "small" else nullcontext():
        found, noted = run(documents, cuts, most)
    assert Counter(found) == expected
    assert noted == over


@pytest.mark.parametrize("small", [0, processor.SMALL_BATCH])
@given(drawn=DOCUMENTS, cuts=CUTS, most=st.integers(1, 6))
@examples(3)
def test_both_evaluators_cut_the_same_also_through_restarts(
    small: int, drawn: Drawn, cuts: list[bool], most: int
) -> None:
    documents = documents_of(drawn)
    one_by_one = run(documents, [True] * 6, most)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(processor, "SMALL_BATCH", small)
        through_restarts = run(documents, cuts, most, Path(folder) / "state.sqlite")
    assert Counter(through_restarts[0]) == Counter(one_by_one[0])
    assert through_restarts[1] == one_by_one[1]


def test_two_small_documents_with_millions_of_answers() -> None:
    query = "S//r[./a->x1][./a->x2] FOLLOWED BY{x1 = y1 AND x2 = y2, 1 d} S//r[./a->y1][./a->y2]"
    with pushed([query], [[one] for one in numbered(["a" * 40] * 6)]) as engine:
        assert not engine.matches()
        assert engine.stopped("q0") == Truncation(5, "d5", RESULTS, False)


CHAINS = (
    "S//r[./a->x] FOLLOWED BY{x = y, 4} S//r[./a->y] FOLLOWED BY{y = z, 4} S//r[./a->z]",
    "S//r[./a->x] JOIN{x = y, 9} S//r[./b->y] JOIN{y = z, 9} S//r[./a->z]",
    "SELECT <r><a>{string(x)}</a></r> FROM S//r[./a->x] FOLLOWED BY{x = y, 4} S//r[./b->y]"
    " PUBLISH made",
    "made//r[./a->x] FOLLOWED BY{x = y, 9} S//r[./a->y]",
    "S//r[./a->x] FOLLOWED BY{x = y AND contains(z, x), 9} S//r[./a->y][./b->z]",
    "(S//r[./a->x] NEXT{x = y} S//r[./b->y]) JOIN{y = z, 9} S//r[./a->z]",
)
ORDERED = (
    "(S//r[./a->x] FOLLOWED BY{x = y, 4} S//r[./b->y]) NEXT{y = z} S//r[./a->z]",
    "(S//r[./a->x] FOLLOWED BY{x = y, 4} S//r[./b->y]) NOT FOLLOWED BY{y = z, 2} S//r[./a->z]",
)


def told(
    documents: Sequence[xscl.Document], cuts: Sequence[bool], most: int, queries: Sequence[str]
) -> tuple[list[str], list[object]]:
    """Return the ids of all matches, and where each subscription was stopped."""
    with pushed(queries, cut(documents, cuts), result_bound=most) as engine:
        engine.flush()
        stopped = [engine.stopped(f"q{number}") for number, _ in enumerate(queries)]
        return sorted(match.id for match in engine.matches()), list(stopped)


@given(drawn=DOCUMENTS, cuts=CUTS, most=st.integers(1, 5))
@examples(6)
def test_chains_and_published_results_do_not_depend_on_cuts(
    drawn: Drawn, cuts: list[bool], most: int
) -> None:
    documents = documents_of(drawn)
    queries = (*CHAINS, *ORDERED)
    assert told(documents, cuts, most, queries) == told(documents, [True] * 6, most, queries)


TOGETHER = pytest.mark.parametrize("together", [False, True])


@TOGETHER
def test_results_of_several_rounds_count_together(together: bool) -> None:
    """The last document is a right side in the first round, and part of left ones in the second."""
    query = "(S//r[./a->x] FOLLOWED BY{x = y, 90} S//r[./b->y]) JOIN{y = z, 90} S//r[./c->z]"
    documents = numbered(["a", "b", "c", "a", "bc"])
    for most, last in ((3, 3), (2, 0)):
        with pushed([query], cut(documents, [not together] * 5), result_bound=most) as engine:
            found = counted(engine)
            assert found.pop(("d0", "d1", "d2")) == 1
            assert found.total() == last
            stopped = engine.stopped("q0")
            assert (stopped and stopped.latest) == (None if last else "d4")


def test_of_a_heavy_document_nothing_is_asked_beyond_the_bound() -> None:
    made = {}
    query = "S//r[./a->x] FOLLOWED BY{x = y, 90} S//r[./a->y]"
    for most in (7, MANY):
        with small_parts(), pushed([query], [numbered("a" * 20)], result_bound=most) as engine:
            matches = engine.push(xscl.Document("S", "heavy", 50, body("aaa")))
            assert len(matches) == (60 if most == MANY else 0)
            made[most] = engine.state.processor.pushed.joins("vj1").num_rows
    assert made[MANY] == 60
    assert made[7] == 12


@TOGETHER
def test_a_heavy_composite_does_not_end_the_joins_of_a_later_document(together: bool) -> None:
    """In a batch the composite comes in the second round, after a document that is newer."""
    query = "(S//r[./a->x] FOLLOWED BY{x = y, 90} S//r[./b->y]) JOIN{y = z, 90} S//r[./c->z]"
    pushes = cut(numbered("c" * 20 + "abc"), [not together] * 23)
    with small_parts(), pushed([query], pushes, result_bound=7) as engine:
        assert counted(engine) == {("d20", "d21", "d22"): 1}


def test_a_heavy_document_meets_each_output_of_an_operator_over_time() -> None:
    """With each output it has a group of its own."""
    query = "(S//r[./a->x] NEXT{x = y} S//r[./b->y]) JOIN{y = z, 900} S//r[./c->z]"
    heavy = xscl.Document("S", "heavy", 50, body("cc"))
    pushes = [[one] for one in (*numbered("ab" * 6), heavy)]
    for parts in (small_parts, nullcontext):
        with parts(), pushed([query], pushes, result_bound=2) as engine:
            expected = {(f"d{n}", f"d{n + 1}", "heavy"): 2 for n in range(0, 12, 2)}
            assert counted(engine) == expected


Part = tuple[int, ...]
"""Of a composite: its documents, each followed by its node."""


def chain(documents: Sequence[xscl.Document], most: int) -> tuple[Counter[Part], set[int]]:
    """Return the matches of `CHAINS[0]` by its definition, and the documents that were cut."""
    leaves = [re.findall(rb"<a>(.)</a>", document.xml) for document in documents]
    found = [(doc, node) for doc, values in enumerate(leaves) for node, _ in enumerate(values)]
    left: list[Part] = [*found]
    cut: set[int] = set()
    for _ in range(2):
        made: dict[int, list[Part]] = {}
        for part, (doc, node) in product(left, found):
            gap = documents[doc].timestamp - documents[part[-2]].timestamp
            if 0 < gap <= 4 and leaves[part[-2]][part[-1]] == leaves[doc][node]:
                made.setdefault(doc, []).append((*part, doc, node))
        cut |= {doc for doc, group in made.items() if len(group) > most}
        left = [one for group in made.values() if len(group) <= most for one in group]
    return Counter(left), cut


@given(
    drawn=st.lists(st.tuples(st.text("uv", max_size=3), st.integers(0, 2)), max_size=8),
    cuts=st.lists(st.booleans(), min_size=8, max_size=8),
    most=st.integers(1, 9),
)
@examples(20)
def test_a_chain_is_bounded_from_its_lowest_join_on(
    drawn: list[tuple[str, int]], cuts: list[bool], most: int
) -> None:
    times = accumulate(step for _, step in drawn)
    documents = [
        xscl.Document(
            "S", f"d{n}", time, f"<r>{''.join(f'<a>{one}</a>' for one in values)}</r>".encode()
        )
        for n, ((values, _), time) in enumerate(zip(drawn, times, strict=True))
    ]
    ids, (stopped,) = told(documents, cuts, most, CHAINS[:1])
    matches, cut = chain(documents, most)
    assert len(ids) == matches.total()
    assert stopped == (Truncation(len(cut), f"d{max(cut)}", most, False) if cut else None)


def test_an_operator_over_time_takes_no_row_of_a_document_that_was_cut() -> None:
    queries = [ORDERED[0], "S//r[./a->x] FOLLOWED BY{x = y, 4} S//r[./b->y]"]
    pushes = [[one] for one in numbered(["aa", "bb", "a", "aaa", "bbb", "a"])]
    with pushed(queries, pushes, result_bound=5) as engine:
        engine.flush()
        # none of d4, which has nine results with d3
        assert counted(engine, "q0") == {("d0", "d1", "d2"): 4}
        stopped = engine.stopped("q0"), engine.stopped("q1")
    assert [one and tuple(one) for one in stopped] == [(1, "d4", 5, True), (1, "d4", 5, False)]


EACH_PAIR = "S//r[./a->x] JOIN{x = y, 1 d} S//r[./a->y]"


def test_a_push_with_very_many_results_is_split_between_documents() -> None:
    documents = numbered("a" * 10)
    with pushed([EACH_PAIR], []) as engine:
        engine.ingest._push_size.size = 3
        matches = engine.push(documents, source=("q", 1))
        assert engine.state.pushes == 2  # three, and four times as many from then on
        assert len(matches) == 90
        assert [match.position for match in matches] == sorted(match.position for match in matches)
        assert len(engine.push(documents, source=("q", 1))) == 0
        assert engine.consumed("q") == 1


def test_a_split_push_that_was_broken_off_is_made_good_when_it_comes_again(path: Path) -> None:
    documents = numbered("a" * 10)
    with xscl.Engine(path) as engine:
        engine.subscribe("q", EACH_PAIR)
        engine.ingest._push_size.size = 3
        fails_at = iter((False, True))
        push = engine.ingest._transact

        def failing(*arguments: object) -> object:
            if next(fails_at):
                raise KeyboardInterrupt
            return push(*arguments)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine.ingest, "_transact", failing)
            with pytest.raises(KeyboardInterrupt):
                engine.push(documents, source=("q", 1))
        assert engine.consumed("q") is None
    with xscl.Engine(path) as engine:
        engine.push(documents, source=("q", 1))
        assert len({match.id for match in engine.matches()}) == len(engine.matches()) == 90


def test_what_an_operator_over_time_puts_out_is_bounded_alike_in_every_push() -> None:
    """It comes when its epoch is closed: by a beat or document of the same push, or of the next."""
    *earlier, newest, other = numbered(["a", "b", "a", "b", "cc", "e"], step=2)
    query = CHAINS[-1].replace("9}", "90}").replace("S//r[./a->z]", "S//r[./c->z]")
    endings: list[list[tuple[list[xscl.Document], list[Beat]]]] = [
        [([newest], []), ([], [Beat(0, 12)])],
        [([newest], [Beat(1, 12)])],
        [([newest], []), ([other], [])],
        [([newest, other], [])],
    ]
    for last in endings:
        with pushed([query], [], result_bound=3) as engine:
            for number, (some, beats) in enumerate([*(([one], []) for one in earlier), *last]):
                engine.push(some, source=BatchKey("s", number, number, tuple(beats)))
            assert counted(engine) == {("d0", "d1", "d4"): 2, ("d2", "d3", "d4"): 2}


@TOGETHER
def test_an_operator_over_time_waits_for_all_rounds_before_it_takes_rows(together: bool) -> None:
    left = "S//r[./a->x] FOLLOWED BY{x = y, 90} S//r[./b->y]"
    right = "(S//r[./d->u] FOLLOWED BY{u = v, 90} S//r[./e->v]) JOIN{v = w, 90} S//r[./f->w]"
    query = f"(({left}) JOIN{{y = w, 90}} ({right})) NEXT{{w = z}} S//r[./g->z]"
    documents = numbered(["a", "b", "d", "e", "f", "a", "be", "g", "q", "q"], step=10)
    with pushed([query], cut(documents, [not together] * 10), result_bound=2) as engine:
        stopped = engine.stopped("q0")
        assert stopped is not None
        assert (stopped.latest, stopped.incomplete) == ("d6", True)
        assert all("d6" not in match.documents for match in engine.matches())


def test_a_trial_and_a_subscription_to_the_past_are_bounded_as_live_ones() -> None:
    queries = [QUERIES[0], CHAINS[0]]
    documents = [xscl.Document("S", f"d{n}", 3 * (n // 2) + n % 2, body("a")) for n in range(6)] + [
        xscl.Document("S", f"e{n}", 20 + n, body("aa")) for n in range(3)
    ]
    with pushed(queries, [[one] for one in documents], result_bound=2) as engine:
        for number, query in enumerate(queries):
            tried = Counter(match.documents for match in engine.try_query(query))
            assert tried == counted(engine, f"q{number}")
        engine.subscribe("past", queries[0].replace("3}", "2}"), since="1 d")
        assert counted(engine, "past") == {(f"d{n}", f"d{n + 1}"): 1 for n in range(5)}
        stopped = engine.stopped("past")
    assert stopped is not None
    assert (stopped.documents, stopped.latest) == (2, "e2")


def test_the_size_of_pushes_grows_with_what_was_pushed_and_shrinks_at_once() -> None:
    size = PushSize()
    size.learn(FIRST, 10 * AIM)
    shrunk = size.size
    assert shrunk < FIRST
    for _ in range(10):
        size.learn(0, 0)
        size.learn(1, 0)
    assert size.size == shrunk
    size.learn(shrunk, shrunk)
    assert size.size == 4 * shrunk
    for _ in range(10):
        size.learn(size.size, 0)
    assert size.size == MOST


# -- What is kept of it --------------------------------------------------------------------


KEPT = 3


def test_the_latest_documents_are_remembered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncations, "KEPT", KEPT)
    seen = []
    with xscl.Engine(path, result_bound=1) as engine:
        engine.subscribe("q", EACH_PAIR.replace("JOIN", "FOLLOWED BY"))
        for number, one in enumerate(numbered("a" * 20)):
            engine.push(one)
            stopped = engine.stopped("q")
            assert (stopped is None) is (number < 2)
            if stopped is not None:
                assert stopped.latest == one.id
                seen.append(stopped.documents)
        assert max(seen) == 2 * KEPT
        assert min(seen[KEPT:]) >= KEPT
        with closing(engine.connect()) as store:
            assert store.fetch("SELECT count(*) FROM state.cut") == [(seen[-1],)]
    with xscl.Engine(path, result_bound=1) as engine:
        again = engine.stopped("q")
        assert again is not None
        assert (again.documents, again.latest) == (seen[-1], "d19")
