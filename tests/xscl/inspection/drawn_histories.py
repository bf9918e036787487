"""Histories of an engine, each drawn from a number, in which everything happens that changes what
subscriptions have: documents that come in any order, within the lateness and after it, items that
feeds held already, new versions, batches of any size, names that are used again, edits, pauses,
flushes, beats, and restarts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import xscl
from xscl.errors import XsclError

SECOND = 1_000_000
NAMES = ("one", "two")
_LEFT, _RIGHT, _LAST = "{A}//i->x[./k->a][./n->m]", "{B}//i->y[./k->b][./n->n]", "{A}//i->z[./k->c]"
QUERIES = {
    "block": _LEFT,
    "joined": f"{_LEFT} JOIN{{{{a = b, {{w}} s}}}} {_RIGHT}",
    "unbounded": f"{_LEFT} JOIN{{{{a = b}}}} {_RIGHT}",
    "distinct": f"SELECT DISTINCT * FROM {_LEFT} JOIN{{{{a = b, {{w}} s}}}} {_RIGHT}",
    "same stream": f"{_LEFT} JOIN{{{{a = c AND m < 3, {{w}} s}}}} {_LAST}",
    "followed": f"{_LEFT} FOLLOWED BY{{{{a = b, {{w}} s}}}} {_RIGHT}",
    "selected": f"SELECT <p>{{{{a}}}}</p> FROM {_LEFT} FOLLOWED BY{{{{a = b, {{w}} s}}}} {_RIGHT}",
    "unequal": f"{_LEFT} FOLLOWED BY{{{{m < n, {{w}} s}}}} {_RIGHT}",
    "either": f"{_LEFT} JOIN{{{{a = b OR m < n, {{w}} s}}}} {_RIGHT}",
    "function": f"{_LEFT} JOIN{{{{upper-case(a) = upper-case(b) AND m < n, {{w}} s}}}} {_RIGHT}",
    "contains": f"{_LEFT} FOLLOWED BY{{{{contains(a, b) AND NOT m = n, {{w}} s}}}} {_RIGHT}",
    "absent": f"{_LEFT} NOT FOLLOWED BY{{{{a = b, {{w}} s}}}} {_RIGHT}",
    "absent same": f"{_LEFT} NOT FOLLOWED BY{{{{a = c, {{w}} s}}}} {_LAST}",
    "else": f"{_LEFT} FOLLOWED BY{{{{a = b, {{w}} s}}}} {_RIGHT} ELSE",
    "outer": f"{_LEFT} JOIN{{{{a = b, -{{v}} s TO {{w}} s}}}} {_RIGHT} ELSE",
    "outer same": f"{_LEFT} JOIN{{{{{{w}} s}}}} {_LAST} ELSE",
    "outer distinct": f"SELECT DISTINCT * FROM {_LEFT} JOIN{{{{a = c, {{w}} s}}}} {_LAST} ELSE",
    "next": f"{_LEFT} NEXT{{{{a = b}}}} {_RIGHT}",
    "next any": f"{_LEFT} NEXT {_RIGHT}",
    "fold": 'SELECT <run n="{{k}}" of="{{p}}"/> FROM {A}//i[./n->p]'
    " FOLD{{$2.p > $.p, $2.p > $.p, $.k + 1 AS k}} {A}//i[./n->p]",
    "chain": f"({_LEFT} JOIN{{{{a = b, {{w}} s}}}} {_RIGHT})"
    f" FOLLOWED BY{{{{b = c, {{v}} s}}}} {_LAST}",
    "absent chain": f"({_LEFT} JOIN{{{{a = b, {{w}} s}}}} {_RIGHT})"
    f" NOT FOLLOWED BY{{{{b = c, {{v}} s}}}} {_LAST}",
    "after absence": f"({_LEFT} NOT FOLLOWED BY{{{{a = b, {{w}} s}}}} {_RIGHT})"
    f" FOLLOWED BY{{{{a = c, {{v}} s}}}} {_LAST}",
    "after else": f"({_LEFT} FOLLOWED BY{{{{a = b, {{w}} s}}}} {_RIGHT} ELSE)"
    f" JOIN{{{{a = c, {{v}} s}}}} {_LAST}",
    "next of joined": f"({_LEFT} JOIN{{{{a = b, {{w}} s}}}} {_RIGHT}) NEXT{{{{b = c}}}} {_LAST}",
    "publishing": f"SELECT <i>{{{{x/k}}}}</i> FROM {_LEFT} JOIN{{{{a = b, {{w}} s}}}} {_RIGHT}"
    " PUBLISH {P}",
    "reading": "{P}//i->x[./k->a] FOLLOWED BY{{a = b, {w} s}} {B}//i->y[./k->b]",
    "reading in time": "{P}//i->x[./k->a] NOT FOLLOWED BY{{a = b, {w} s}} {B}//i->y[./k->b]",
}


@dataclass
class History:
    """The history of a number: `play` makes it happen in an engine.

    Streams have the number in their names, and times begin `at`, so that several happen in one
    engine, one after the other.  `reopen` closes an engine and returns it opened again.
    """

    number: int
    at: int = 0
    reopen: Callable[[xscl.Engine], xscl.Engine] | None = None
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.number)
        self.streams = {name: f"{name}{self.number}" for name in "ABP"}
        self.names = [f"{name}-{self.number}" for name in NAMES]

    def play(self, engine: xscl.Engine) -> Iterator[xscl.Engine]:
        """Make it happen; yield the engine now and then, and at the end."""
        chance = self._chance
        for name in "AB":
            late = chance.choice((0, 0, 2, 5)) * SECOND
            engine.stream(self.streams[name], lateness=late)
        documents = self._documents()
        start = chance.randrange(3)
        for step in range(chance.randint(7, 14)):
            if step == start:
                kinds = list(QUERIES)  # so many histories have each kind
                self._subscribe(engine, self.names[0], kinds[self.number % len(kinds)])
            batch = chance.choice((1, 1, 2, 3, 5))
            deed = chance.choice(("push",) * 8 + ("subscribe",) * 2 + _DEEDS)
            self.steps.append(deed)
            if deed == "push":
                some, documents = documents[:batch], documents[batch:]
                self.steps.extend(map(_described, some))
                engine.push(some)
            elif deed == "flush":
                engine.flush()
            elif deed == "advance":
                engine.advance(self.at + chance.randrange(14) * SECOND)
            elif deed == "reopen" and self.reopen is not None:
                engine = self.reopen(engine)
            elif deed == "look":
                yield engine
            elif deed == "fail":
                with suppress(_Broken), engine.transactions.change():
                    raise _Broken
            else:
                self._change(engine, deed)
        self.steps.extend(map(_described, documents))
        engine.push(documents)
        if chance.random() < 0.7:
            self.steps.append("flush")
            engine.flush()
        yield engine

    def _documents(self) -> list[xscl.Document]:
        chance, made = self._chance, list[xscl.Document]()
        times = sorted(chance.randrange(14) for _ in range(chance.randint(5, 11)))
        noise = chance.choice((0, 0, 3, 14))
        times.sort(key=lambda time: time + chance.uniform(0, noise))
        feeds = {name: chance.random() < 0.4 for name in "AB"}  # whether its items are history
        for number, time in enumerate(times):
            on = chance.choice(("A", "A", "B", "B", "AB"))
            keys = chance.choices("uuuv", k=chance.choice((1, 1, 1, 2)))
            values = "".join(f"<k>{key}</k>" for key in keys)
            xml = f"<i>{values}<n>{chance.randint(1, 4)}</n></i>"
            id, stamp = f"d{self.number}-{number}", self.at + time * SECOND
            if made and chance.random() < 0.15:
                earlier = chance.choice(made)
                id, on = str(earlier.id), on if chance.random() < 0.2 else ""
                streams = tuple(self.streams[name] for name in on) or earlier.streams
                xml = xml.replace("</i>", f"<edit>{number}</edit></i>")
            else:
                streams = tuple(self.streams[name] for name in on)
            history = feeds[on[:1] or "A"] and chance.random() < 0.8
            made.append(xscl.Document(streams, id, stamp, xml.encode(), history=history))
        if any(feeds.values()) and chance.random() < 0.5:  # one feed is followed after the other
            made.sort(key=lambda one: self.streams["A"] in one.streams)
        return made

    def _query(self, kind: str | None = None) -> str:
        chance = self._chance
        text = QUERIES[kind or chance.choice(list(QUERIES))]
        window, other = chance.randint(1, 7), chance.randint(1, 7)
        return text.format(w=window, v=other, **self.streams)

    def _subscribe(self, engine: xscl.Engine, name: str, kind: str | None = None) -> None:
        chance, query = self._chance, self._query(kind)
        updates, history = chance.random() < 0.4, chance.random() < 0.4
        self.steps.append(f"{name}: {query} {updates=} {history=}")
        with suppress(XsclError):  # the name is taken, or a cycle of streams
            engine.subscribe(name, query, updates=updates, history=history)

    def _change(self, engine: xscl.Engine, deed: str) -> None:
        chance, name = self._chance, self._chance.choice(self.names)
        self.steps.append(name)
        known = engine.subscription(name)
        if deed == "subscribe" and known is None:
            self._subscribe(engine, name)
        elif deed == "replace" and known is not None:
            with suppress(XsclError):
                engine.unsubscribe(name, cascade=True)
            self._subscribe(engine, name)
        elif deed == "unsubscribe" and known is not None:
            engine.unsubscribe(name, cascade=True, purge=chance.random() < 0.1)
        elif deed == "edit" and known is not None:
            query = known.query.replace("SELECT DISTINCT * FROM ", "")
            query = self._query() if chance.random() < 0.5 else f"SELECT DISTINCT * FROM {query}"
            self.steps.append(query)
            with suppress(XsclError):
                engine.edit(name, query)
        elif deed == "pause" and known is not None:
            with suppress(XsclError):
                engine.edit(name, paused=not known.is_paused)


class _Broken(Exception):
    """A change that fails: the engine reads its state again."""


_DEEDS = ("replace", "unsubscribe", "edit", "pause", "flush", "advance", "reopen", "look", "fail")


def _described(one: xscl.Document) -> str:
    kind = " history" if one.history else ""
    return f"  {one.id} on {'+'.join(one.streams)} at {one.timestamp / SECOND:g}{kind} {one.xml!r}"
