"""Views of matches and documents with users' names in place of engine names."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from xscl.delivery.message import row_of, size_of
from xscl.service.accounts import Account
from xscl.service.bodies import JsonBody
from xscl.subscriptions.match import Match


class Bound(JsonBody):
    """A node that a variable is bound to."""

    document: str = Field(examples=["orders/17"])
    """The name of its document."""
    node: int = Field(examples=[2])
    """Its number in the document."""
    path: str = Field(examples=["/order[1]/item[1]"])
    """Its location."""
    value: str = Field(examples=["a12"])
    """Its string value."""


class SourceShown(JsonBody):
    """A document of a match for people: its name, and title and address as far as it has them."""

    document: str = Field(examples=["orders/17"])
    """Its name, which no other document has."""
    stream: str = Field(examples=["orders"])
    """The stream that it was sent to."""
    id: str = Field(examples=["17"])
    """The id that it was sent with."""
    version: int = Field(examples=[1])
    """Its version: 1 for the first document with its id on its stream."""
    root: str = Field(examples=["order"])
    """The name of its root element."""
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
    documents: list[str] = Field(examples=[["17", "4"]])
    """The ids that the documents were sent with, in the order of the query's blocks; `17@2` for a
    second version."""
    sources: list[SourceShown]
    """The documents with stream, title, address and time; none of a row of events."""
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


def shown_within(account: Account, matches: Sequence[Match]) -> list[MatchShown]:
    """Return the first matches that fit on a page; the first one at least."""
    shown: list[MatchShown] = []
    left = PAGE_BYTES
    for match in matches:
        row = row_of(match, account.named)
        match.forget()
        left -= size_of(row)
        if left < 0 and shown:
            break
        shown.append(MatchShown.model_validate(row))
    return shown
