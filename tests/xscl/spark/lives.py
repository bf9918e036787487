"""Lives of an engine: what people and documents do to it, and what can be seen of that.

A life is a list of steps.  It is led by a plain engine and by one whose documents pass executors in
this process; the two must show the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import strategies as st

import xscl
from templates import processor
from tests.joining import in_database
from tests.xscl.planning.test_event_queries import FLAT
from tests.xscl.spark.bucket_executors import EngineWithExecutors
from xscl.documents.consumed_offsets import BatchKey, Beat
from xscl.documents.retention import Retention
from xscl.engine import ingest
from xscl.engine.ingest import PushResult
from xscl.errors import XsclError
from xscl.spark import bucket, executors, offers

Step: TypeAlias = tuple[Any, ...]

JOINS = (
    "{L}//a->x[./k->u] FOLLOWED BY{{u=v, {W}}} {R}//a->y[./k->v]",
    "{L}//a->x[./k->u] JOIN{{u=v, {W}}} {R}//a->y[./k->v]",
    "{L}//k->u FOLLOWED BY{{u=v, {W}}} {R}//k->v",
    "{L}//a->x[./k->u][./v->p] FOLLOWED BY{{u=v AND p=q, {W}}} {R}//a->y[./k->v][./v->q]",
    "{L}//a->x[./k->u][./v->p] JOIN{{u=v AND p!=q, {W}}} {R}//a->y[./k->v][./v->q]",
    "{L}//a->x[./k->u][./v->p] FOLLOWED BY{{u=v AND p<q, {W}}} {R}//a->y[./k->v][./v->q]",
    "SELECT DISTINCT <r>{{u}}</r> FROM {L}//a->x[./k->u] JOIN{{u=v, {W}}} {R}//a->y[./k->v]",
    "SELECT <r>{{u}}</r> FROM {L}//a->x[./k->u] FOLLOWED BY{{u=v, {W}}} {R}//a->y[./k->v]",
    "{L}//a->x[./k->u][./v->p] JOIN{{u=v OR p=q, {W}}} {R}//a->y[./k->v][./v->q]",
    "{L}//a->x[./k->u] FOLLOWED BY{{lower-case(u)=v, {W}}} {R}//a->y[./k->v]",
    "{L}//a->x[./k->u] FOLLOWED BY{{contains(v, u), {W}}} {R}//a->y[./k->v]",
)
OTHERS = (
    "{L}//a->x[./k='a']",
    "{L}//a->x[./k->u] NEXT{{u=v}} {R}//a->y[./k->v]",
    "{L}//a->x[./k->u] NOT FOLLOWED BY{{u=v, {W}}} {R}//a->y[./k->v]",
    "{L}//a->x[./k->u] FOLLOWED BY{{u=v, {W}}} {R}//a->y[./k->v] ELSE",
    "({L}//a->x[./k->u] JOIN{{u=v, {W}}} {R}//a->y[./k->v]) FOLLOWED BY{{v=w, {W}}} {L}//k->w",
    "{L}//k->w JOIN{{w=u, {W}}} ({L}//a->x[./k->u] FOLLOWED BY{{u=v, {W}}} {R}//a->y[./k->v])",
    "{L}//k->k_1 FOLD{{$1.k_1=$2.k, $2.k=$.k, $.n + 1 AS n}} {R}//k->k",
)
PUBLISHERS = (
    "SELECT <a>{{u}}<v>1</v></a> FROM {L}//a->x[./k->u] JOIN{{u=v, {W}}} {R}//a->y[./k->v]"
    " PUBLISH {P}",
    "SELECT <a><k>{{string(u)}}</k><v>2</v></a> FROM {L}//a->x[./k->u] PUBLISH {P}",
    "SELECT <a>{{u}}</a> FROM {L}//a->x[./k->u] NOT FOLLOWED BY{{u=v, {W}}} {R}//a->y[./k->v]"
    " PUBLISH {P}",
)
EVENTS = (
    ("EVENT SEQ(S a, R b) WHERE a.k = b.k WITHIN 4 ms", "sase"),
    ("SELECT * FROM S x ; R y WHERE FILTER(x.k = y.k), (x, y) OCCURS WITHIN 5 ms", "eql"),
    ("SELECT * FROM S NEXT{$1.k = $2.k} R", "cel"),
    ("SELECT k FROM FILTER{k = 'a'}(S) PUBLISH P", "cel"),
)
STREAMS = ("S", "S", "R", "R", "P")
ARRIVING: tuple[str | tuple[str, ...], ...] = ("S", "S", "R", "R", ("S", "R"), ("R", "S"), "P")
MS = 1_000


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, str]:
    """Return a strategy of queries with their languages."""
    kind = draw(st.integers(0, 11))
    if kind == 11:
        return draw(st.sampled_from(EVENTS))
    form = draw(st.sampled_from(JOINS if kind < 7 else OTHERS if kind < 10 else PUBLISHERS))
    left, right = (draw(st.sampled_from(STREAMS)) for _ in range(2))
    window = f"{draw(st.sampled_from((2, 4, 4, 9)))} ms"
    if draw(st.integers(0, 15)) == 15:
        window = "INF"
    return form.format(L=left, R=right, W=window, P="P"), "xscl"


@st.composite
def documents(draw: st.DrawFn, now: int) -> list[xscl.Document]:
    """Return a strategy of documents about a time."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        now += draw(st.sampled_from((0, 0, 1, 1, 2)))
        time = now - draw(st.sampled_from((0, 0, 0, 0, 1, 3)))
        streams = draw(st.sampled_from(ARRIVING))
        keys = draw(st.lists(st.sampled_from("abA"), min_size=1, max_size=2))
        value = draw(st.integers(1, 3))
        text = f"<a>{''.join(f'<k>{key}</k>' for key in keys)}<v>{value}</v></a>"
        if draw(st.integers(0, 14)) == 14:
            text = "<a>"
        name = draw(st.sampled_from((f"d{now}", f"d{now}", f"d{draw(st.integers(0, 20))}")))
        found.append(xscl.Document(streams, name, time * MS, text.encode()))
    return found


RETENTIONS = st.builds(
    Retention,
    history=st.sampled_from((0, 0, 3 * MS, 10**9, None)),
    text_bytes=st.sampled_from((0, 200, None)),
    matches=st.sampled_from((0, 5 * MS, None, None)),
)
KEEPING = st.builds(
    Retention, history=st.just(None), text_bytes=st.just(None), matches=st.sampled_from((0, None))
)
"""Executors keep documents that an engine alone would not, and so a history has more."""


@st.composite
def lives(draw: st.DrawFn, *, registers: bool = True, steps: int = 12) -> list[Step]:
    """Return a strategy of lives; a history is begun if all texts are kept.

    Unless someone `registers` later, all queries are there before the documents.
    """
    made: list[Step] = []
    has_past = draw(st.booleans())
    retentions = KEEPING if has_past else RETENTIONS
    if has_past or draw(st.booleans()):
        made.append(("retain", draw(retentions)))
    if draw(st.booleans()):
        made.append(("stream", draw(st.sampled_from("SR")), draw(st.sampled_from((1, 3))) * MS))
    names = iter(range(100))
    for _ in range(draw(st.integers(1, 3))):
        made.append(("subscribe", f"q{next(names)}", *draw(queries()), draw(st.booleans()), None))
    now = 1
    for _ in range(draw(st.integers(3, steps))):
        kind = draw(st.integers(0, 23))
        name = f"q{draw(st.integers(0, 4))}"
        if kind < 11:
            made.append(("push", draw(documents(now)), draw(st.sampled_from((1, 2, 99)))))
            now += draw(st.sampled_from((1, 2, 2, 5)))
        elif kind in (11, 12, 13, 14, 18) and not registers:
            continue
        elif kind < 14:
            since = draw(st.sampled_from((None, None, "history", 0, 3 * MS, 10 * MS)))
            since = since if has_past else None
            new = f"q{next(names)}"
            made.append(("subscribe", new, *draw(queries()), draw(st.booleans()), since))
        elif kind == 14:
            made.append(("edit", name, *draw(queries())))
        elif kind == 15:
            made.append(("pause", name, draw(st.booleans())))
        elif kind == 16:
            made.append(("rename", name, f"q{next(names)}"))
        elif kind == 17:
            made.append(("unsubscribe", name, draw(st.booleans()), draw(st.booleans())))
        elif kind == 18:
            some = [(f"q{next(names)}", draw(queries())[0]) for _ in range(2)]
            made.append(("many", some, has_past and draw(st.booleans())))
        elif kind == 19:
            at = (now + draw(st.integers(-1, 3))) * MS
            made.append(draw(st.sampled_from((("advance", now * MS), ("flush",), ("beat", at)))))
        elif kind == 20:
            made.append(draw(st.sampled_from((("restart",), ("fail",)))))
        elif kind == 21:
            made.append(
                (
                    "broken",
                    draw(documents(now)),
                    draw(st.sampled_from(POINTS)),
                    draw(st.integers(1, 3)),
                    draw(st.sampled_from((1, 2, 99))),
                    draw(st.booleans()),
                )
            )
            now += 2
        elif kind == 22:
            made.append(("retain", draw(retentions)))
        else:
            made.append(("open", draw(st.sampled_from((True, True, False)))))
    made.append(("push", draw(documents(now)), 99))
    made.append(("flush",))
    return made


POINTS = ("accepted", "joined", "stored")


@dataclass
class Life:
    """A life that an engine leads, with executors or without them; what it shows."""

    path: Path | None
    with_executors: bool
    buckets: int = 4
    seed: int = 0
    bound: int = 10_000
    seen: list[Any] = field(default_factory=list, init=False)
    _waiting: list[xscl.Document] = field(default_factory=list, init=False)
    _beats: list[Beat] = field(default_factory=list, init=False)
    _batch: int = 0

    def __post_init__(self) -> None:
        self._open(self.with_executors)

    def _open(self, with_executors: bool) -> None:
        if with_executors:
            self.engine: xscl.Engine = EngineWithExecutors(
                self.path, buckets=self.buckets, seed=self.seed, result_bound=self.bound
            )
        else:
            self.engine = xscl.Engine(self.path, result_bound=self.bound)

    def lead(self, steps: Sequence[Step]) -> list[Any]:
        """Take all steps, and return what was seen."""
        try:
            for stream in "SRP":
                self.engine.stream(stream, attributes=FLAT)
            for step in steps:
                try:
                    self.seen.append((step[0], self._take(step)))
                except XsclError as error:
                    self.seen.append((step[0], type(error).__name__, str(error)))
            self.seen += self._end()
        finally:
            self.engine.close()
        return self.seen

    def _take(self, step: Step) -> Any:
        engine = self.engine
        match step:
            case ("push", found, size):
                with _sized(engine, size):
                    return _outcome(self._push(found))
            case ("broken", found, point, passage, size, alone):
                with _sized(engine, size), _failing(point, passage), suppress(_Broken):
                    return _outcome(self._push(found))
                if alone:
                    with _sized(engine, size):
                        return _outcome(self._push([]))
            case ("subscribe", name, query, language, updates, since):
                given = {"history": True} if since == "history" else {"since": since}
                engine.subscribe(name, query, language=language, updates=updates, **given)
                return _shown(engine.matches(name))
            case ("many", pairs, history):
                return engine.subscribe_many(pairs, history=history)
            case ("edit", name, query, language):
                engine.edit(name, query, language=language)
            case ("pause", name, paused):
                engine.edit(name, paused=paused)
            case ("rename", name, other):
                engine.edit(name, rename=other)
            case ("unsubscribe", name, cascade, purge):
                return engine.unsubscribe(name, cascade=cascade, purge=purge)
            case ("stream", name, late):
                engine.stream(name, lateness=late, attributes=FLAT)
            case ("advance", to):
                return _shown(engine.advance(to))
            case ("beat", time):
                if isinstance(engine, EngineWithExecutors):
                    engine.beat(time)
                self._beats.append(Beat(len(self._waiting), time))
            case ("flush",):
                return _shown(engine.flush())
            case ("retain", retention):
                engine.retain(retention)
            case ("fail",):
                with suppress(_Broken), engine.transactions.change():
                    raise _Broken
            case ("restart",):
                if isinstance(engine, EngineWithExecutors):
                    engine.executors.forget()
            case ("open", with_executors):
                if self.path is not None:
                    engine.close()
                    waits = bool(self._waiting or self._beats)
                    self._open((with_executors or waits) and self.with_executors)
            case _:
                raise AssertionError(step)
        return None

    def _push(self, found: Sequence[xscl.Document]) -> PushResult:
        """Push documents, after those that were not taken before."""
        self._waiting += found
        if isinstance(self.engine, EngineWithExecutors):
            pushed = self.engine.push(found) if found else self.engine.push_waiting()
        else:
            self._batch += 1
            source = BatchKey("alone", self._batch, 0, tuple(self._beats))
            pushed = self.engine.push(self._waiting, source=source)
        self._waiting, self._beats = [], []
        return pushed

    def _end(self) -> Iterator[Any]:
        engine = self.engine
        yield _shown(engine.matches())
        for one in engine.subscriptions:
            yield one.name, engine.stopped(one.name)
        rows = "SELECT stream, id, reason FROM rejected ORDER BY ALL"
        yield engine.sql(rows).to_pylist()


class _Broken(Exception):
    """A failure in the midst of a push."""


@contextmanager
def _failing(point: str, passage: int) -> Iterator[None]:
    """Make a push fail at a passage of a point."""
    left = iter(range(passage - 1, -1, -1))

    def reached(where: str) -> None:
        if where == point and next(left, None) == 0:
            raise _Broken

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ingest, "reached", reached)
        yield


@contextmanager
def _sized(engine: xscl.Engine, size: int) -> Iterator[None]:
    """Split pushes into transactions of so many documents, and what executors read, too."""
    with pytest.MonkeyPatch.context() as patched, in_database(size == 2):
        patched.setattr(ingest, "MOST", size)
        patched.setattr(offers, "FEW", size)
        patched.setattr(executors, "PORTION", size)
        patched.setattr(bucket, "SMALL_BATCH", processor.SMALL_BATCH)
        engine.ingest._push_size.size = size
        yield


def _outcome(pushed: PushResult) -> tuple[Any, ...]:
    return _shown(pushed), pushed.accepted, pushed.unchanged, pushed.rejected, pushed.late


def _shown(matches: Iterable[xscl.Match]) -> list[tuple[Any, ...]]:
    """Return all that may be compared of matches."""
    return [
        (
            one.subscription,
            one.id,
            one.documents,
            (one.t0, one.t1, one.version, one.backfilled),
            _text(one),
        )
        for one in matches
    ]


def _text(match: xscl.Match) -> str:
    """Return the bindings and the output of a match, as far as its documents are kept."""
    try:
        return f"{match.bindings} {match.xml()!r}"
    except XsclError as error:
        return type(error).__name__


def led(steps: Sequence[Step], with_executors: bool, in_file: bool, **settings: Any) -> list[Any]:
    """Lead a life, and return what was seen."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.sqlite" if in_file else None
        return Life(path, with_executors, **settings).lead(steps)
