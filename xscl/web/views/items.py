"""Items: the list of documents, one with its nodes, a comparison of two, and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Form, Query, Response
from markupsafe import Markup
from pydantic import Field

from feeds.formats.display import safe_html
from feeds.xml.xmlparse import parse
from xscl.client.answers import DocumentNode
from xscl.delivery.cards import Card, card, of_reader
from xscl.documents.document_ids import UNKNOWN, find_document, number_in
from xscl.documents.results import XSCL
from xscl.errors import DocumentError, XsclError
from xscl.inspection.by_example import (
    ExampleSide,
    Exclusion,
    Leaf,
    SharedValue,
    differing,
    exclusions,
    query_for,
    query_of,
    shared,
)
from xscl.inspection.vocabulary import leaf_value, steps_of
from xscl.language.names import EVERYTHING
from xscl.language.parser import parse_window
from xscl.service.browsing import part_of, spooled, visible_names
from xscl.service.marks import ItemOrder, item_order
from xscl.service.problems import Problem
from xscl.service.routes import reading, subscriptions
from xscl.service.routes.documents import Before, browsed
from xscl.service.routes.inspection import DiagnoseAsked, WhyAsked, diagnose, show_witness, why
from xscl.service.subscribing import existing
from xscl.shredding.nodes import number_nodes
from xscl.store.queries.browsing import BrowsedDocument, documents_seen
from xscl.store.queries.documents import document_named, documents_by_stream
from xscl.store.queries.feeds import given_titles
from xscl.subscriptions.match import MatchDocument
from xscl.web.conditions import numbered, readable
from xscl.web.pages import Asked, Back, ListQuery, PageRequest, router
from xscl.web.views.matches import names_of_subscriptions, read_of

LIMIT = 50
NEWEST = 10
"""Number of items on the page of a feed."""
NODES = 1_000
"""Number of nodes of a document that its page shows."""
WINDOWS = (
    *(("1 h", "1 hour"), ("1 d", "1 day"), ("3 d", "3 days"), ("7 d", "7 days")),
    *(("30 d", "30 days"), ("365 d", "1 year")),
)

_ELSEWHERE = frozenset({"img", "h1", "h2"})
"""Elements removed from items: pages load nothing from other sites and have their own headings."""

Doc = Annotated[str, Query(max_length=1_000)]


@dataclass(frozen=True, slots=True)
class ItemRow:
    """A row of the list, times in ticks; `card` is None if the document's text is not kept."""

    id: str
    ts: int
    arrived: int
    streams: list[str]
    history: bool
    card: Card | None


@dataclass(frozen=True, slots=True)
class Example:
    """A document to compare: its name, its tree, and the stream and root of a block for it."""

    id: str
    part: MatchDocument
    side: ExampleSide
    card: Card


class ItemFilter(ListQuery):
    """The filter of the list; `with` is a document already chosen for a comparison."""

    before: Before = ""
    stream: str = Field(default="", max_length=200)
    q: str = Field(default="", max_length=200)
    chosen: str = Field(default="", alias="with", max_length=1_000)


@router.get("/items")
def items(asked: Asked, wanted: Annotated[ItemFilter, Query()]) -> Response:
    """Show a page of documents in the reader's order, the latest first."""
    before, given = wanted.before, wanted.parameters
    order = asked.with_store(item_order, asked.account)
    found, following = browsed(
        asked.app,
        asked.account,
        stream=wanted.stream,
        text=wanted.q,
        before=before if order == "arrival" or "." in before else "",  # drops a cursor by arrival
        limit=LIMIT,
        order=order,
    )
    rows = [_row(asked, one) for one in found]
    return asked.page(
        "items.html",
        rows=rows,
        read=read_of(asked, [row.id for row in rows]),
        order=order,
        streams=_streams(asked),
        wanted=wanted,
        older=None if following is None else wanted.address("/items", before=following),
        chosen=example(asked, wanted.chosen) if wanted.chosen else None,
        given=urlencode({name: value for name, value in given.items() if name != "with"}),
    )


@router.post("/items/order")
def order_items(
    asked: Asked,
    order: Annotated[ItemOrder, Form()],
    back: Back = "/items",
) -> Response:
    """Set the reader's order of items, and return to the page `back`."""
    reading.put(reading.ReadingOrder(order=order), asked.app, asked.account)
    return asked.back(back)


@router.post("/read")
def mark(
    asked: Asked,
    item: Annotated[list[str], Form(max_length=1_000)],
    read: Annotated[bool, Form()] = True,
) -> Response:
    """Mark items or matches as read or unread, for the keys and links of lists."""
    reading.mark(reading.Marked(items=item, read=read), asked.app, asked.account)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.get("/document")
def document(asked: Asked, id: Doc) -> Response:
    """Show a document's content and its nodes, each with a query for documents with its value."""
    shown = example(asked, id)
    found = show_witness(id, asked.app, asked.account)
    leaves = {node.path: node.text for node in found.nodes}
    paths = ("/item[1]/content[1]", "/item[1]/description[1]")
    path = next((each for each in paths if leaves.get(each)), "")
    written = leaves.get(path, "")
    written = escape(written) if leaves.get(f"{path}/@type") == "text" else written
    said = safe_html(written, leaves.get("/item[1]/item_url[1]", ""), without=_ELSEWHERE)
    return asked.page(
        "document.html",
        found=found,
        one=shown,
        said=Markup(said),
        nodes=_nodes(shown, found.nodes[:NODES]),
        bound=[node for node in found.nodes if node.variables],
    )


@router.get("/compare")
def compare(asked: Asked, doc: Annotated[list[str], Query(max_length=2)]) -> Response:
    """Show two documents, their shared and differing values, and a form for `why_not`."""
    pair = _pair(asked, doc)
    trees = [one.part.tree for one in pair]
    apart = abs(pair[0].part.ts - pair[1].part.ts)
    return asked.page(
        "compare.html",
        pair=pair,
        shared=shared(*trees),
        differing=[leaf for leaf in differing(*trees) if leaf[-1] not in ("id", "content")],
        windows=WINDOWS,
        window=next((value for value, _ in WINDOWS if parse_window(value) >= apart), "365 d"),
        subscriptions=names_of_subscriptions(asked),
    )


@router.get("/compare/query")
def written(
    asked: Asked,
    doc: Annotated[list[str], Query(max_length=2)],
    pair: Annotated[list[str] | None, Query(max_length=100)] = None,
    differs: Annotated[list[str] | None, Query(max_length=100)] = None,
    window: Annotated[str, Query(pattern=r"^\d{1,6} (ms|s|min|h|d|w)$")] = "7 d",
    order: Annotated[str, Query(pattern="^(first|any)$")] = "first",
) -> Response:
    """Open the editor with a query for two documents' ticked values.

    `pair` are shared values, `differs` paths of values that differ.
    """
    left, right = _pair(asked, doc)
    trees = left.part.tree, right.part.tree
    ticked: list[SharedValue] = [one for one in shared(*trees) if one.key in (pair or ())]
    others: list[Leaf] = [one for one in differing(*trees) if "/".join(one) in (differs or ())]
    if not ticked and not others:
        raise Problem("invalid_request", "nothing is ticked that the two documents share")
    text = query_of(
        left.side, right.side, ticked, others, window=window, is_ordered=order == "first"
    )
    return asked.redirect("/subscribe", query=text)


@router.get("/why")
def why_not(
    asked: Asked,
    subscription: Annotated[str, Query(max_length=500)],
    doc: Annotated[list[str] | None, Query(max_length=100)] = None,
) -> Response:
    """Show each condition of a subscription on given documents: its evidence, or nearest miss.

    Without documents, show the diagnosis: the counts of each block, and the closest documents.
    """
    doc = doc or []
    subject: dict[str, Any] = {"subscription": subscription, "query": None}
    conditions, found, error = [], None, None
    try:
        if doc:
            question = WhyAsked(**subject, documents=doc)
            answer = why(question, asked.app, asked.account)
            doc, conditions = list(answer.documents), numbered(answer.edges, answer.documents)
        else:
            found = diagnose(DiagnoseAsked(**subject, since=None), asked.app, asked.account)
    except XsclError as raised:
        error = asked.problem(raised)
    return asked.page(
        "why.html",
        subscription=subscription,
        cards=[example(asked, one).card for one in doc if one != "-"],
        conditions=conditions,
        failing=sum(not edge.holds for edge in conditions),
        diagnosis=None if found is None else readable(found),
        error=error,
        turned=urlencode([("subscription", subscription), *(("doc", one) for one in doc[::-1])]),
    )


def newest_items(asked: PageRequest, stream: str) -> list[ItemRow]:
    """Return the `NEWEST` items of a stream, given by the reader's name."""
    known = asked.app.accounts.resolver.stream(asked.account, stream)
    with asked.app.store() as store:
        viewer = asked.account.number
        found = [] if known is None else documents_seen(store, viewer, stream=known, limit=NEWEST)
    return [_row(asked, one) for one in found]


def _row(asked: PageRequest, one: BrowsedDocument) -> ItemRow:
    shown = None if one.xml is None else card(part_of(one, one.xml), {})
    streams = [name for name in visible_names(asked.account, one.streams) if name != EVERYTHING]
    return ItemRow(asked.account.named(one.name), one.ts, one.arrived, streams, one.history, shown)


def _streams(asked: PageRequest) -> list[tuple[str, int]]:
    """Return the reader's names of streams with counts of documents, the largest count first."""
    with asked.app.store() as store:
        counts = documents_by_stream(store)
    seen = [(asked.account.visible(known), number) for known, number in counts.items()]
    named = [(name, number) for name, number in seen if name is not None]
    return sorted(named, key=lambda one: (-one[1], one[0]))


def _pair(asked: PageRequest, documents: Sequence[str]) -> tuple[Example, Example]:
    """Return two documents to compare, the earlier one first; raises Problem."""
    if len(documents) != 2:
        raise Problem("invalid_request", "two documents are compared", hint="choose them in Items")
    one, other = sorted((example(asked, name) for name in documents), key=lambda one: one.part.ts)
    return one, other


def example(asked: PageRequest, name: str) -> Example:
    """Return a document that the reader may see, by name or id; raises Problem 404."""
    app, account = asked.app, asked.account
    with app.store() as store:
        try:
            known = find_document(store, name, account.called)
        except DocumentError as error:
            if error.reason_code != UNKNOWN:
                raise
            raise Problem("not_found", f"There is no such item: {name}", hint="see Items") from None
        row = document_named(store, known)
    text = spooled(app.engine, known, app.home.spool) if row["xml"] is None else row["xml"]
    tree, streams = number_nodes(parse(text)), row["streams"]
    names = visible_names(account, streams)
    stream = next((one for one in names if one != EVERYTHING), names[0])
    first = account.named(streams[0])
    with app.store() as store:
        (feed_title,) = given_titles(store, [row["doc"]]).values()
    part = MatchDocument(
        account.named(known), row["ts"], tree, first, row["given"], number_in(known), feed_title
    )
    side = ExampleSide(stream, next(steps_of(tree))[0])
    return Example(part.document, part, side, of_reader(card(part, {}), str))


def _nodes(one: Example, nodes: Sequence[DocumentNode]) -> list[dict[str, Any]]:
    """Return the first nodes of a document with their paths and queries for their values."""
    tree = one.part.tree
    rows = []
    for node, leaf, item in zip(nodes, steps_of(tree), tree.items, strict=False):
        query = query_for(one.side, leaf, leaf_value(item)) if leaf_value(item) else ""
        path = f"{one.side.stream}/{'/'.join(leaf)}"
        rows.append({"node": node, "path": path, "query": query})
    return rows


@router.get("/not-again")
def not_again(
    asked: Asked,
    subscription: Annotated[str, Query(max_length=500)],
    doc: Annotated[list[str], Query(min_length=1, max_length=20)],
) -> Response:
    """Show conditions that would exclude a match, given by its documents, from a subscription."""
    found = subscriptions.shown(
        asked.app, asked.account, existing(asked.app, asked.account, subscription)
    )
    examples = [example(asked, one) for one in doc]
    trees = [one.part.tree for one in examples]
    listed = exclusions(found.query, trees) if found.language == XSCL else [[] for _ in trees]
    choices = [
        (one.card, [each for each in those if _excludes(asked, each, doc)])
        for one, those in zip(examples, listed, strict=True)
    ]
    return asked.page("not_again.html", name=subscription, query=found.query, choices=choices)


def _excludes(asked: PageRequest, one: Exclusion, documents: list[str]) -> bool:
    """Return True if the documents do not match the query with the exclusion's condition."""
    question = WhyAsked(query=one.query, subscription=None, documents=documents)
    return not why(question, asked.app, asked.account).matched
