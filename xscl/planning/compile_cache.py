"""Compilation cache by query shape: queries that differ in constants only are compiled once.

A query is registered as an outline (`xscl.planning.query_plan`).  The outlines of one shape differ
in their constants only, so a shape is compiled once with placeholders for the constants.

Constants can change the order in which conditions are printed.  So a shape is compiled twice, with
placeholders in ascending and in descending order.  If the two results differ by more than the
placeholders, or do not reproduce the first query, every query of the shape is compiled by itself.
This happens at the second query of a shape, because many shapes have one query.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xscl.errors import XsclError
from xscl.language.constants import Constant, Shape, filler, marks, split
from xscl.language.limits import admit
from xscl.planning.compile import CompiledQuery, too_deep
from xscl.planning.query_plan import Outline, outline

Fill: TypeAlias = "Callable[[Sequence[Constant]], Outline]"

_SOURCE = "\ue000 source"  # stands for the text, which is put in like its constants

MOST = 50_000
"""Shapes that are kept: of some 8 to 13 kB each while one query has it, then of 13 to 21 kB."""


@dataclass(frozen=True, slots=True)
class First:
    """The only query of its shape so far, and its constants."""

    constants: Sequence[Constant]
    query: Outline


class Shapes:
    """Queries ready to be registered, compiled once for each shape; for any thread."""

    def __init__(self, compile_: Callable[[str], CompiledQuery], most: int = MOST) -> None:
        self._compile = compile_
        self._most = most
        self._shapes: dict[Shape, First | Fill] = {}  # that of the longest ago first
        self._lock = threading.Lock()

    def prepare(self, source: str) -> Outline:
        """Return a query ready to be registered; raises QueryError."""
        admit(source)
        found = split(source)
        if found is None:
            return self._alone(source)
        shape, constants = found
        with self._lock:
            known = self._shapes.pop(shape, None)
            if known is None:
                whole = self._alone(source)
                self._keep(shape, First(constants, whole))
                return whole
            if isinstance(known, First):
                known = self._learnt(shape, known.constants, known.query)
            self._keep(shape, known)
        try:
            return known((*constants, source))
        except RecursionError:
            raise too_deep(source) from None

    def _keep(self, shape: Shape, learnt: First | Fill) -> None:
        """Keep what is known of a shape; the one that was asked for longest ago leaves."""
        if len(self._shapes) >= self._most:
            del self._shapes[next(iter(self._shapes))]
        self._shapes[shape] = learnt

    def _alone(self, source: str) -> Outline:
        return outline(self._compile(source))

    def _learnt(self, shape: Shape, constants: Sequence[Constant], whole: Outline) -> Fill:
        """Return the factory of a shape's queries; one by one if more depends on constants."""
        whole = replace(whole, source=_SOURCE)
        first, last = ((*marks(shape, first=first), _SOURCE) for first in (True, False))
        if not constants:
            fill: Fill = filler(whole, first)
            return fill
        try:
            one, other = (
                replace(self._alone(shape.text(marked)), source=_SOURCE) for marked in (first, last)
            )
            fill = filler(one, first, printed=True)
            same = fill(last) == other and fill((*constants, _SOURCE)) == whole
        except (XsclError, RecursionError):
            return self._by_itself
        return fill if same else self._by_itself

    def _by_itself(self, given: Sequence[Constant]) -> Outline:
        *_, source = given
        assert isinstance(source, str)
        return self._alone(source)
