"""Subscriptions and backfills: stored rows, converted to objects as they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

XSCL = "xscl"
RESULTS_UP_TO = "results_forgotten"
"""The key in `state.meta` of the last position at which a result was deleted for its age."""


WITHOUT_PAST = -2
"""The `backfilled` of a subscription whose history could not be read."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A registered query.

    `qid` is the number of its stream of results: its row in the R_T of its
    `template`, or below 0 (then `template` is 0).  `outputs` are the variables
    that its results bind, in their order, each with the place of its document
    among a result's.  It sees documents whose `first` is at least `since`.
    `ordered`: an operator over time is in it.  `columns` are the attributes of
    what a query in another `language` finds, `events` the schemas (as text) of
    the documents that it reads as events.  One with a history has the number that its
    operators over time are `bound_to`.  Its matches up to the position `backfilled` are of the
    past, except those at the positions `live`: others that share the results had them first.

    `key` is the name in the ids of its matches and in the plan, which a change of the name does not
    change.  `version` counts the queries of the name.  Its results have positions after `after`,
    and up to `until`, if that is set: the end of an earlier version, or the beginning of a pause.
    With `stories` its matches that share a document are one story.
    """

    number: int
    name: str
    query: str
    template: int
    qid: int
    outputs: tuple[tuple[int, str], ...]
    since: int
    distinct: bool = False
    updates: bool = False
    publish: str | None = None
    reads: tuple[str, ...] = ()
    ordered: bool = False
    language: str = XSCL
    columns: tuple[str, ...] = ()
    events: str = ""
    key: str = ""
    version: int = 1
    after: int = 0
    until: int | None = None
    bound_to: int | None = None
    backfilled: int = -1
    live: tuple[int, ...] = ()
    stories: bool = False

    @property
    def is_paused(self) -> bool:
        """True for a registered subscription that is paused."""
        return self.until is not None

    @property
    def is_bounded(self) -> bool:
        """True if `after` or `until` exclude results at some positions."""
        return self.after > 0 or self.until is not None

    def covers(self, position: int) -> bool:
        """Return True if `after` and `until` allow a result at a position."""
        return position > self.after and (self.until is None or position <= self.until)

    @property
    def is_row(self) -> bool:
        """True if the subscription is only a row of R_T: one join over blocks, no operators."""
        return self.template > 0 and self.publish is None

    def is_backfilled(self, position: int) -> bool:
        """Return True if the result at a position belongs to the subscription's backfill."""
        return position <= self.backfilled and position not in self.live

    @property
    def relational(self) -> bool:
        """True if the query is in an event language, such as CEL."""
        return self.language != XSCL

    @property
    def split(self) -> int:
        """The number of outputs that belong to the first document of a result."""
        return [place for place, _ in self.outputs].count(0)


_FIELDS = tuple(field.name for field in fields(Subscription))
_OTHERS = ("outputs", "distinct")  # fields that are not columns of the same name
_SAME = tuple(name for name in _FIELDS if name not in _OTHERS)
_values_of = attrgetter(*_SAME)


def stored_subscriptions(columns: Mapping[str, Sequence[Any]]) -> Iterator[Subscription]:
    """Yield the subscriptions of stored rows, which are given as columns.

    The column `outputs` has the names of the output variables, `places` the index of the document
    of each in a result.
    """
    outputs = map(_outputs, columns["places"], columns["outputs"])
    values = {**columns, "outputs": outputs, "distinct": columns["is_distinct"]}
    return map(Subscription, *(values[name] for name in _FIELDS))


@lru_cache(4_096)
def _outputs(places: tuple[int, ...], names: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """Return (place, name) of each output; cached, as most subscriptions have equal ones."""
    return tuple(zip(places, names, strict=True))


def subscription_row(one: Subscription) -> dict[str, object]:
    """Return a subscription as a row, whose columns `stored_subscriptions` reads."""
    return {
        **dict(zip(_SAME, _values_of(one), strict=True)),
        "outputs": [name for _, name in one.outputs],
        "places": [place for place, _ in one.outputs],
        "is_distinct": one.distinct,
    }


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill that is not complete: of a `subscription`, by its number and its `key`.

    It was registered before the document of the number `doc` arrived, at a `clock`.  Earlier
    matches are marked as backfilled, `most` of them if that is set.  One that is not
    `acknowledged` is dropped when the engine is opened again.
    """

    subscription: int
    key: str
    doc: int
    clock: int
    most: int | None
    acknowledged: bool
