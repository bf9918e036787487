"""Pages of kept matches: what `Engine.matches` has, filtered and cut, whatever lies between."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples
from tests.waiting import PATIENCE
from xscl.engine import match_log
from xscl.engine.match_log import LAST
from xscl.errors import StoreError, UnknownSubscription, near_miss
from xscl.store.queries.documents import TimedText, texts_of
from xscl.store.store import Store
from xscl.subscriptions import subscriptions
from xscl.subscriptions.match import Match

PLAIN = "S//item->i[./tag->t] FOLLOWED BY{t=u, 30} S//item->j[./tag->u]"
QUERIES = {
    "plain": PLAIN,
    "same": "S//item->k[./tag->v] FOLLOWED BY{v=w, 30} S//item->l[./tag->w]",
    "distinct": f"SELECT DISTINCT * FROM {PLAIN}",
    "filter": "S//item->i[./tag='a']",
    "chain": "(S//item->i[./tag->t] FOLLOWED BY{t=u, 8} S//item->j[./tag->u])"
    " FOLLOWED BY{t=w, 8} S//item->k[./tag->w]",
    "chains": "SELECT DISTINCT * FROM (S//item->i[./tag->t] FOLLOWED BY{t=u, 8}"
    " S//item->j[./tag->u]) FOLLOWED BY{t=w, 8} S//item->k[./tag->w]",
    "absence": "S//item->i[./tag='b'] NOT FOLLOWED BY{, 3} S//item[./tag='c']",
}
LATER = ("late", "fresh")


@dataclass(frozen=True, slots=True)
class Kept:
    """An engine with matches of all kinds, and all of them, read before."""

    engine: xscl.Engine
    matches: Sequence[Match]

    def of(self, name: str) -> list[Match]:
        return [match for match in self.matches if match.subscription == name]


def item(number: int, time: int, choice: random.Random) -> xscl.Document:
    tags = "".join(f"<tag>{tag}</tag>" for tag in choice.sample("abcde", choice.randint(1, 3)))
    xml = f"<item>{tags}</item>".encode()
    # some come again with other content: new versions, which most do not see
    name = number if number % 7 else max(0, number - 3)
    return xscl.Document("S", f"d{name}", time, xml)


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    choice = random.Random(7)
    items = [item(number, number * 2 + choice.randint(0, 1), choice) for number in range(48)]
    with xscl.Engine() as engine:
        for name, query in QUERIES.items():
            engine.subscribe(name, query)
        for begin in range(0, 24, 6):
            engine.push(items[begin : begin + 6])
        engine.subscribe("late", PLAIN)
        engine.subscribe("fresh", f"SELECT DISTINCT * FROM {PLAIN}", updates=True)
        for begin in range(24, 48, 6):
            engine.push(items[begin : begin + 6])
        engine.flush()
        yield Kept(engine, list(engine.matches()))


def told(matches: Sequence[Match]) -> list[tuple[int, str, str, bytes]]:
    return [(m.position, m.subscription, m.id, m.xml()) for m in matches]


@pytest.mark.parametrize("name", [*QUERIES, *LATER])
def test_each_subscription_has_matches(kept: Kept, name: str) -> None:
    assert len(kept.of(name)) > 3


BOUND = st.integers(0, 700)


@examples(25)
@given(
    name=st.sampled_from([*QUERIES, *LATER]),
    after=BOUND,
    before=st.none() | BOUND,
    limit=st.integers(1, 40),
    newest_first=st.booleans(),
)
def test_page_is_the_filter_of_all(
    kept: Kept, name: str, after: int, before: int | None, limit: int, newest_first: bool
) -> None:
    page = kept.engine.matches_of(
        name, after=after, before=before, limit=limit, newest_first=newest_first
    )
    inside = [m for m in kept.of(name) if after < m.position < (LAST if before is None else before)]
    wanted = inside[::-1] if newest_first else inside
    assert told(page.matches) == told(wanted[:limit])
    assert page.more == (len(wanted) > limit)


@examples(15)
@given(
    names=st.sets(st.sampled_from([*QUERIES, *LATER]), min_size=1),
    start=st.tuples(BOUND, st.integers(0, 10)),
    limit=st.integers(1, 30),
    newest_first=st.booleans(),
    prefix=st.sampled_from(["", "", "ch", "d", "no"]),
)
def test_page_of_several_is_the_filter_of_all(
    kept: Kept, names: set[str], start: tuple[int, int], limit: int, newest_first: bool, prefix: str
) -> None:
    names = {name for name in names if name.startswith(prefix)}

    def inside(match: Match) -> bool:
        place = match.position, match.number
        return match.subscription in names and (place < start if newest_first else place > start)

    after, before = ((0, 0), start) if newest_first else (start, None)
    page = kept.engine.log.page_of_all(
        lambda one: one.name in names,
        after=after,
        before=before,
        limit=limit,
        newest_first=newest_first,
        prefix=prefix,
    )
    wanted = sorted(filter(inside, kept.matches), key=lambda m: (m.position, m.number))
    wanted = wanted[::-1] if newest_first else wanted
    assert told(page.matches) == told(wanted[:limit])


@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_that_end_among_results_of_others_cut_no_group(
    kept: Kept, newest_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_log, "SCANNED", 1)
    found: list[Match] = []
    after, before = (0, 0), (LAST, 0)
    for _ in range(1_000):
        page = kept.engine.log.page_of_all(
            lambda one: one.name in ("distinct", "chains"),
            after=after,
            before=before,
            limit=3,
            newest_first=newest_first,
        )
        found += page.matches
        if not page.more:
            break
        place = page.end, 0 if newest_first else LAST
        if len(page.matches) == 3:
            place = page.matches[-1].position, page.matches[-1].number
        after, before = (after, place) if newest_first else (place, before)
    wanted = [one for one in kept.matches if one.subscription in ("distinct", "chains")]
    assert told(found) == told(wanted[::-1] if newest_first else wanted)


@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_after_one_another_have_all_while_others_come(newest_first: bool) -> None:
    choice = random.Random(3)
    with xscl.Engine() as engine:
        engine.subscribe("q", f"SELECT DISTINCT * FROM {PLAIN}")
        engine.push(item(number, number, choice) for number in range(16))
        before = [m.id for m in engine.matches()]
        found: list[str] = []
        end: int | None = None
        for number in range(16, 1_000):
            page = engine.matches_of(
                "q",
                after=0 if newest_first or end is None else end,
                before=end if newest_first else None,
                limit=4,
                newest_first=newest_first,
            )
            found += [m.id for m in page.matches]
            if not page.more or len(found) >= len(before):
                break
            end = page.end
            engine.push(item(number, number, choice))
    assert len(before) > 15
    assert (found[::-1] if newest_first else found[: len(before)]) == before
    assert len(set(found)) == len(found)


def test_end_of_a_page_that_has_all_is_the_last_position(kept: Kept) -> None:
    page = kept.engine.matches_of("absence", limit=1_000)
    assert not page.more
    assert page.end >= max(m.position for m in kept.matches)


def test_page_needs_no_lock_of_the_engine(kept: Kept) -> None:
    taken = kept.engine.transactions.lock
    result: list[int] = []
    with taken:
        reader = threading.Thread(
            target=lambda: result.append(len(kept.engine.matches_of("plain", limit=5).matches))
        )
        reader.start()
        reader.join(PATIENCE)
    assert result == [5]


def test_unknown_name_raises(kept: Kept) -> None:
    with pytest.raises(UnknownSubscription, match=r"no subscription named .plan."):
        kept.engine.matches_of("plan")


def test_pages_end_with_the_engine() -> None:
    engine = xscl.Engine()
    engine.subscribe("q", PLAIN)
    pages = engine.log
    engine.close()
    with pytest.raises(StoreError, match="closed"):
        pages.page("q")


NUMBERS = count()


def test_an_unknown_name_is_compared_with_those_of_one_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deliveries ask without the engine's lock; a registration comes between two comparisons."""
    with xscl.Engine() as engine:
        engine.subscribe("orders", "S//a->x")

        def slowly(name: str, names: Iterable[str], *, quoted: bool) -> str | None:
            def one_by_one() -> Iterable[str]:
                for one in names:
                    engine.subscribe(f"other {next(NUMBERS)}", "S//a->x")
                    yield one

            return near_miss(name, one_by_one(), quoted=quoted)

        monkeypatch.setattr(subscriptions, "near_miss", slowly)
        with pytest.raises(UnknownSubscription, match="order") as caught:
            engine.state.subscriptions["order"]
        assert caught.value.hint == "did you mean 'orders'?"


def test_texts_of_listed_matches_are_read_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever page they are of, each is read once, although all pages are listed first."""
    with xscl.Engine(tmp_path / "state.sqlite") as engine:
        engine.subscribe("q", "S//a->x[./k->n] FOLLOWED BY{n = m, 1 d} S//b->y[./k->m]")
        for first in range(0, 600, 200):
            numbers = range(first, first + 200)
            engine.push(
                xscl.Document(
                    "S",
                    f"{kind}{n}",
                    2 * n + (kind == "b"),
                    f"<{kind}><k>{n}</k></{kind}>".encode(),
                )
                for n in numbers
                for kind in "ab"
            )
    read = list[int]()

    def counted(store: Store, numbers: list[int], most: int) -> dict[int, TimedText]:
        read.append(len(numbers))
        return texts_of(store, numbers, most)

    monkeypatch.setattr("xscl.engine.match_log.texts_of", counted)
    with xscl.Engine(tmp_path / "state.sqlite") as engine:
        matches = list(engine.matches("q"))
        assert [match.xml().count(b"<k>") for match in matches] == [2] * 600
    assert sum(read) == 1200
    assert len(read) < 40
