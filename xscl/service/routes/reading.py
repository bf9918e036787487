"""Read marks and the order of items: `/v1/reading` and `/v1/reading/marks`."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from pydantic import Field

from xscl.client import service_answers as answers
from xscl.client.bodies import time_of
from xscl.service.bodies import After, Limit, ListPage, RequestBody
from xscl.service.dependencies import TheAccount, TheApp, api_router
from xscl.service.marks import (
    LONGEST_ITEM,
    ItemOrder,
    item_order,
    mark_read,
    set_item_order,
)
from xscl.store.queries.owned_rows import read_marks

router = api_router(tag="documents")

Item = Annotated[str, Field(min_length=1, max_length=LONGEST_ITEM)]


class ReadingOrder(RequestBody):
    """The order in which items are read."""

    order: ItemOrder = Field(examples=["date"])
    """By arrival, or by their own dates; the newest first."""


class Marked(RequestBody):
    """Items and matches that are marked."""

    items: list[Item] = Field(max_length=1_000, examples=[["news/example.org-1f0c#1"]])
    """Names of documents and ids of matches."""
    read: bool = True
    """True to mark them as read, false as unread."""


@router.get("/reading", summary="Show how you read items")
def get(app: TheApp, account: TheAccount) -> answers.Reading:
    """Shows the order in which the page lists items."""
    with app.store() as store:
        return answers.Reading(order=item_order(store, account))


@router.put("/reading", summary="Change how you read items")
def put(wanted: ReadingOrder, app: TheApp, account: TheAccount) -> answers.Reading:
    """Sets the order in which the page lists items, in every browser."""
    with app.store() as store:
        set_item_order(store, account, wanted.order)
    return answers.Reading(order=wanted.order)


@router.get("/reading/marks", summary="List what you have read")
def marks(
    app: TheApp, account: TheAccount, limit: Limit = 100, after: After = None
) -> ListPage[answers.ReadMark]:
    """Lists the items and matches that you have marked as read, at most 10,000, sorted by name."""
    with app.store() as store:
        found = list(read_marks(store, account.number, after=after or "", limit=limit + 1))
    items = [answers.ReadMark(item=one["item"], read=time_of(one["read"])) for one in found[:limit]]
    return ListPage(items=items, next=items[-1].item if len(found) > limit else None)


@router.post("/reading/marks", summary="Mark as read", status_code=HTTPStatus.NO_CONTENT)
def mark(wanted: Marked, app: TheApp, account: TheAccount) -> None:
    """Marks items and matches as read or unread, in every browser."""
    with app.store() as store:
        mark_read(store, account, wanted.items, read=wanted.read)
