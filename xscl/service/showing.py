"""Views of matches and documents with users' names in place of engine names."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from xscl.service.accounts import Account
from xscl.service.bodies import JsonBody, Moment
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


class MatchShown(JsonBody):
    """A match.  `t0` and `t1` are ticks, as in Python and for `xscl run`."""

    id: str = Field(examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"])
    """A stable name: 32 hexadecimal digits."""
    subscription: str = Field(examples=["echo"])
    """The name of the subscription."""
    documents: list[str] = Field(examples=[["order-17", "invoice-4"]])
    """The ids of the documents, in the order of the query's blocks."""
    t0: int = Field(examples=[1772366400000000])
    """Time of the first document in microseconds since 1970."""
    t1: int = Field(examples=[1772370000000000])
    """Time at which the match is complete, in microseconds since 1970."""
    timestamp: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Time at which the match is complete: `t1`, as ISO 8601."""
    history: bool = Field(examples=[False])
    """True if all documents are items from before their feeds were followed."""
    bindings: dict[str, list[Bound]]
    """Nodes bound to each variable of the query."""
    xml: str = Field(examples=["<result>...</result>"])
    """The output document."""
    constructed: bool = Field(examples=[False])
    """True if the query constructs the output document."""


def match_shown(who: Account, match: Match) -> MatchShown:
    """Return a match with its owner's names."""
    return MatchShown(
        id=match.id,
        subscription=who.named(match.subscription),
        documents=[who.named(name) for name in match.documents],
        t0=match.t0,
        t1=match.t1,
        timestamp=match.t1,
        history=match.history,
        bindings={
            variable: [
                Bound(
                    document=who.named(node.document),
                    node=node.node,
                    path=node.path,
                    value=node.value,
                )
                for node in nodes
            ]
            for variable, nodes in match.bindings.items()
        },
        xml=match.xml().decode(),
        constructed=match.constructed,
    )


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
