"""The documents of a batch as they come to stage 1, and the witnesses of all of them.

A document may have been shredded elsewhere already (`xscl.xpath.portions`).  If
that was done with the patterns of today its witnesses are taken, and it is
parsed only if somebody asks for its nodes; otherwise it is shredded here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
from lxml import etree

from feeds.xmlparse import parse
from templates.relations import TIMES, Witnesses
from xscl.xpath.nfa import Automaton
from xscl.xpath.portions import Part, placed
from xscl.xpath.shred import Columns


class Content:
    """The text of a document, parsed when it is first needed."""

    __slots__ = ("_root", "xml")

    def __init__(self, xml: bytes, root: etree._Element | None = None) -> None:
        self.xml = xml
        self._root = root

    @property
    def root(self) -> etree._Element:
        if self._root is None:
            self._root = parse(self.xml)
        return self._root


class Arrival(NamedTuple):
    """A document with its numbers: see `templates.relations.Witnesses`."""

    doc: int
    streams: tuple[str, ...]
    content: Content
    ts: int
    clock: int
    rank: int
    base: int
    first: int
    version: int = 1
    part: Part | None = None

    @property
    def root(self) -> etree._Element:
        return self.content.root


def shred(automaton: Automaton, arrivals: Iterable[Arrival]) -> Witnesses:
    """Return the witnesses of a batch of documents."""
    columns = Columns(automaton)
    times: list[tuple[int, ...]] = []
    elsewhere: list[tuple[int, Part]] = []
    for one in arrivals:
        times.append((one.doc, one.ts, one.ts, one.clock, one.rank, one.base, one.first))
        if one.part is not None and one.part.portion.version == automaton.version:
            elsewhere.append((one.doc, one.part))
        else:
            columns.add(one.doc, one.streams, one.root)
    bindings, values = placed(columns.tables(), elsewhere)
    fields = zip(*times, strict=True) if times else [()] * len(TIMES)
    arrays = [pa.array(c, f.type) for c, f in zip(fields, TIMES, strict=True)]
    return Witnesses(bindings, pa.table(arrays, schema=TIMES), values)
