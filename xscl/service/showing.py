"""Views of matches and documents with users' names in place of engine names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from xscl.delivery.message import row_of, size_of
from xscl.service.accounts import Account
from xscl.service.bodies import JsonBody
from xscl.service.names import OPERATOR, owner
from xscl.store.store import Store
from xscl.subscriptions.match import Match


class Bound(JsonBody):
    """A node that a variable is bound to."""

    document: str = Field(examples=["order-17"])
    """The id of its document."""
    node: int = Field(examples=[2])
    """Its number in the document."""
    path: str = Field(examples=["/order[1]/item[1]"])
    """Its location."""
    value: str = Field(examples=["a12"])
    """Its string value."""


class SourceShown(JsonBody):
    """A document of a match for people; of documents that are no feed items the id and the time."""

    document: str = Field(examples=["order-17"])
    """Its id."""
    title: str = Field(examples=["Ferry stops"])
    """Its title, or nothing."""
    url: str | None = Field(examples=["https://example.org/ferry"])
    """Its web address."""
    source: str = Field(examples=["example.org"])
    """The host of its publisher, or nothing."""
    timestamp: str = Field(examples=["2026-03-01T12:00:00Z"])
    """Its time."""


class MatchShown(JsonBody):
    """A match: the same object over HTTP, in deliveries and from the command line."""

    id: str = Field(examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"])
    """A stable name: 32 hexadecimal digits."""
    match: str = Field(examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"])
    """The same as `id`."""
    subscription: str = Field(examples=["echo"])
    """The name of the subscription."""
    timestamp: str = Field(examples=["2026-03-01T12:00:00Z"])
    """Time at which the match is complete."""
    started: str = Field(examples=["2026-03-01T11:00:00Z"])
    """Time of the first document."""
    history: bool = Field(examples=[False])
    """True if all documents are items from before their feeds were followed."""
    backfilled: bool = Field(examples=[False])
    """True if it is from before its subscription was made."""
    position: int = Field(examples=[17])
    """Position in the order of all results; of a trial, in the order of its own."""
    version: int = Field(examples=[1])
    """The version of the subscription's query that found it: an edit begins the next one."""
    documents: list[str] = Field(examples=[["order-17", "invoice-4"]])
    """The ids of the documents, in the order of the query's blocks."""
    sources: list[SourceShown]
    """The documents with title, address and time; none of a row of events."""
    t0: int = Field(examples=[1772366400000000])
    """`started` in microseconds since 1970."""
    t1: int = Field(examples=[1772370000000000])
    """`timestamp` in microseconds since 1970."""
    bindings: dict[str, list[Bound]]
    """Nodes bound to each variable of the query."""
    xml: str = Field(examples=["<result>...</result>"])
    """The output document."""
    constructed: bool = Field(examples=[False])
    """True if the query constructs the output document."""


PAGE_BYTES = 16_000_000
"""Characters of the matches of a page, after which it ends."""


def shown_within(who: Account, matches: Sequence[Match]) -> list[MatchShown]:
    """Return the first matches that fit on a page; the first one at least."""
    shown: list[MatchShown] = []
    left = PAGE_BYTES
    for match in matches:
        row = row_of(match, who.named)
        match.forget()
        left -= size_of(row)
        if left < 0 and shown:
            break
        shown.append(MatchShown.model_validate(row))
    return shown


def visible_document(store: Store, who: Account, name: str) -> str | None:
    """Return the engine's id for a user's document id; None if no such document is visible."""
    wanted = [name] if who.is_operator else [who.qualify(name), name]
    if owner(name)[0] != OPERATOR:
        return None
    found = dict(
        store.fetch("SELECT id, streams FROM state.document WHERE list_contains(?, id)", [wanted])
    )
    return next((one for one in wanted if one in found and _visible(who, found[one])), None)


def _visible(who: Account, streams: Iterable[str]) -> bool:
    return any(who.visible(stream) is not None for stream in streams)
