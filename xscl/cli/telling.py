"""Telling a person the matches of what a command has just brought in.

A match counts as told when it was written out: who is stopped before is told
again by the next command.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from feeds.documents import Document
from xscl.cli.output import match_row, match_text, say
from xscl.cli.remote import PAGE, Remote
from xscl.cli.told import Told
from xscl.engine import Engine
from xscl.ledger import Batch
from xscl.match import Match
from xscl.sink import EngineSink
from xscl.xpath.portions import Part


@dataclass(slots=True)
class Heard:
    """Prints matches as they come, or keeps them for the one answer in JSON.

    Those among what feeds held already are only counted, by subscription, unless `history` is set.
    """

    as_json: bool
    history: bool = True
    shown: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    silent: Counter[str] = field(default_factory=Counter)

    def __call__(self, matches: Iterable[Match | Told]) -> None:
        for match in matches:
            if match.history and not self.history:
                self.silent[match.subscription] += 1
                continue
            self.shown += 1
            if self.as_json:
                self.rows.append(match_row(match))
            else:
                for line in match_text(match):
                    say(line)
        sys.stdout.flush()


def sink(engine: Engine, heard: Heard) -> EngineSink:
    """Return the sink that tells; of one answer in JSON all matches are told when it is left."""
    return (_ToldAtTheEnd if heard.as_json else EngineSink)(engine, heard)


class _ToldAtTheEnd(EngineSink):
    """A sink whose matches count as told when it is left, not batch by batch."""

    def __enter__(self) -> _ToldAtTheEnd:
        self.on_matches(self.engine.host.log.undelivered())
        return self

    def consume(
        self, documents: Sequence[Document], batch: Batch, parts: Sequence[Part] = ()
    ) -> None:
        pushed = self.engine.host.ingest.push(documents, source=batch, parts=parts)
        self.on_matches(pushed.matches)


def latest(service: Remote) -> int:
    """Return the position of the latest match that a service has for who asks; 0 without any."""
    found = service.get("/v1/matches", limit=1)["matches"]
    return int(found[0]["position"]) if found else 0


def told_since(service: Remote, position: int) -> list[Told]:
    """Return the matches of a service after a position, in the order in which they were found."""
    found: list[Told] = []
    before = None
    while True:
        page = service.get("/v1/matches", limit=PAGE, before=before)
        new = [Told(one) for one in page["matches"] if one["position"] > position]
        found += new
        if len(new) < len(page["matches"]) or page["next"] is None:
            return found[::-1]
        before = parse_qs(page["next"])["before"][0]
