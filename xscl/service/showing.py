"""Views of matches and documents with users' names in place of engine names."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, Field

from xscl.service.accounts import Account
from xscl.service.moments import Moment
from xscl.service.names import OPERATOR, owner
from xscl.store.store import Store
from xscl.subscriptions.match import Match


class Bound(BaseModel):
    """A node that a variable is bound to."""

    document: str = Field(description="The id of its document.", examples=["order-17"])
    node: int = Field(description="Its number in the document.", examples=[2])
    path: str = Field(description="Its location.", examples=["/order[1]/item[1]"])
    value: str = Field(description="Its string value.", examples=["a12"])


class MatchShown(BaseModel):
    """A match.  `t0` and `t1` are ticks, as in Python and for `xscl run`."""

    id: str = Field(
        description="A stable name: 32 hexadecimal digits.",
        examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"],
    )
    subscription: str = Field(description="The name of the subscription.", examples=["echo"])
    documents: list[str] = Field(
        description="The ids of the documents, in the order of the query's blocks.",
        examples=[["order-17", "invoice-4"]],
    )
    t0: int = Field(
        description="When the first document was, in microseconds since 1970.",
        examples=[1772366400000000],
    )
    t1: int = Field(
        description="When the match was complete, in microseconds since 1970.",
        examples=[1772370000000000],
    )
    timestamp: Moment = Field(
        description="When the match was complete: `t1`.", examples=["2026-03-01T12:00:00Z"]
    )
    history: bool = Field(
        description="Whether all documents are from before their feeds were followed.",
        examples=[False],
    )
    bindings: dict[str, list[Bound]] = Field(
        description="Every variable of the query, with the nodes that it is bound to."
    )
    xml: str = Field(description="The output document.", examples=["<result>...</result>"])
    constructed: bool = Field(
        description="Whether the query says what the output document is.", examples=[False]
    )


def document_name(who: Account, known: str) -> str:
    """Return a user's id for a visible document; ids of other owners are public."""
    return who.own(known) or known


def match_shown(who: Account, match: Match) -> MatchShown:
    """Return a match with its owner's names."""
    return MatchShown(
        id=match.id,
        subscription=who.own(match.subscription) or match.subscription,
        documents=[document_name(who, name) for name in match.documents],
        t0=match.t0,
        t1=match.t1,
        timestamp=match.t1,
        history=match.history,
        bindings={
            variable: [
                Bound(
                    document=document_name(who, node.document),
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
