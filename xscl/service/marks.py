"""Marks of a reader: starred matches, read items, their order, and saved statements in SQL.

A star has the view model of its match as JSON, because the documents of the match may leave.
Renaming a subscription renames its stars, and purging its matches deletes them
(`xscl.subscriptions`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from pydantic import TypeAdapter

from xscl.client.bodies import time_of
from xscl.client.service_answers import SavedStatement
from xscl.delivery.cards import Card, MatchView
from xscl.language.names import refuse_label
from xscl.polling.feed_repository import ticks
from xscl.service.accounts import Account, refuse_more
from xscl.store.queries import owned_rows as stored
from xscl.store.queries.rows import delete_but_newest, delete_rows, rows_of
from xscl.store.store import Store
from xscl.time_format import written

MOST_STARS = 1_000
"""Maximum number of starred matches of one user."""

StarMark: TypeAlias = tuple[int, str]
"""The place of a star among those of a user: its time in ticks, and the id of its match."""

_VIEW = TypeAdapter(MatchView)


@dataclass(frozen=True, slots=True)
class StoredStar:
    """A star: its time in ticks, and the match as it was then, with its subscription's name now."""

    starred: int
    view: MatchView

    @property
    def cursor(self) -> str:
        """The place of the star in an address."""
        return f"{self.starred}.{self.view.id}"


def mark_of(cursor: str) -> StarMark:
    """Return the place of a star that is written in an address."""
    starred, _, match = cursor.partition(".")
    return int(starred), match


def add_star(store: Store, account: Account, subscription: str, view: MatchView) -> None:
    """Star a match of a subscription, given by its engine name; raises QuotaExceeded.

    A match that is starred already stays as it is.
    """
    with store.transaction():
        listed = {row["match"] for row in rows_of(store, "star", "match", account=account.number)}
        if view.id in listed:
            return
        refuse_more(len(listed), MOST_STARS, "starred match")
        shown = _VIEW.dump_json(view).decode()
        place = {"account": account.number, "match": view.id, "subscription": subscription}
        store.insert_rows("star", [{**place, "starred": ticks(), "view": shown}])


def starred_among(store: Store, account: Account, matches: Collection[str]) -> set[str]:
    """Return those of `matches`, which are ids, that a user has starred."""
    rows = rows_of(store, "star", "match", account=account.number, match=matches)
    return {row["match"] for row in rows}


def delete_star(store: Store, account: Account, match: str) -> None:
    """Delete the star of a match, if it has one."""
    delete_rows(store, "star", account=account.number, match=match)


def stars(
    store: Store, account: Account, limit: int, before: StarMark | None = None
) -> list[StoredStar]:
    """Return at most `limit` stars of a user, the newest first, all older than `before`."""
    rows = stored.stars(store, account.number, before=before, limit=limit)
    return [StoredStar(row["starred"], _view(row, account)) for row in rows]


def _view(row: Mapping[str, Any], account: Account) -> MatchView:
    view = _VIEW.validate_json(row["view"])
    return replace(view, subscription=account.named(row["subscription"]))


def star_row(star: StoredStar) -> dict[str, Any]:
    """Return a star as a JSON value, as its owner sees it."""
    view = star.view
    return {
        "match": view.id,
        "subscription": view.subscription,
        "starred": written(star.starred),
        "timestamp": written(view.t1),
        "position": view.place[0],
        "documents": [
            {
                **{"document": card.document, "stream": card.stream, "id": card.id},
                **{"version": card.version, "root": card.root},
                **{"title": card.title.text, "url": card.url},
                **{"timestamp": written(card.ts), "values": _values_of(card)},
            }
            for card in view.cards
        ],
        "values": {value.name: value.text for value in view.values},
        "xml": view.output,
    }


def _values_of(card: Card) -> dict[str, list[str]]:
    """Return the texts of a card by name of their leaf, without the title."""
    found: dict[str, list[str]] = {}
    for value in (card.text, *card.categories, *card.values):
        for leaf in () if value is None else value.leaves:
            found.setdefault(leaf.name, []).append(leaf.text)
    return found


MOST_MARKS = 10_000
"""Maximum number of read marks of one user; the oldest beyond it are deleted."""
LONGEST_ITEM = 1_000
"""Maximum number of characters of a marked item: the id of a match or the name of a document."""

ItemOrder: TypeAlias = Literal["arrival", "date"]
"""An order of items: by their arrival, or by their own dates; the newest first."""

_ORDER = "items"


def read_among(store: Store, account: Account, items: Collection[str]) -> set[str]:
    """Return those of `items` that a user has read; they are names of documents and match ids."""
    rows = rows_of(store, "read_mark", "item", account=account.number, item=items)
    return {row["item"] for row in rows}


def mark_read(store: Store, account: Account, items: Collection[str], *, read: bool) -> None:
    """Mark documents, by name, and matches, by id, as read or unread."""
    with store.transaction():
        if not read:
            delete_rows(store, "read_mark", account=account.number, item=items)
            return
        now = ticks()
        rows = [{"account": account.number, "item": item, "read": now} for item in items]
        store.insert_rows("read_mark", rows, replace=True)
        delete_but_newest(store, "read_mark", MOST_MARKS, account=account.number)


def item_order(store: Store, account: Account) -> ItemOrder:
    """Return the order in which a user reads items."""
    rows = rows_of(store, "preference", "value", account=account.number, name=_ORDER)
    return cast("ItemOrder", next((row["value"] for row in rows), "date"))


def set_item_order(store: Store, account: Account, order: ItemOrder) -> None:
    """Set the order in which a user reads items."""
    row = {"account": account.number, "name": _ORDER, "value": order}
    with store.transaction():
        store.insert_rows("preference", [row], replace=True)


MOST_STATEMENTS = 100
"""Maximum number of saved statements of one user."""
LONGEST_NAME = 100
"""Maximum number of characters of a statement's name."""


def save_statement(store: Store, account: Account, name: str, query: str) -> None:
    """Save a statement, in place of one of the same name; raises WrongLabel, QuotaExceeded."""
    refuse_label(name)
    with store.transaction():
        delete_statement(store, account, name)
        refuse_more(len(saved_statements(store, account)), MOST_STATEMENTS, "saved statement")
        row = {"account": account.number, "name": name, "statement": query, "saved": ticks()}
        store.insert_rows("saved_statement", [row])


def delete_statement(store: Store, account: Account, name: str) -> None:
    """Delete a statement, if there is one of the name."""
    delete_rows(store, "saved_statement", account=account.number, name=name)


def saved_statements(store: Store, account: Account) -> list[SavedStatement]:
    """Return the saved statements of a user in the order of their names."""
    rows = rows_of(store, "saved_statement", order="name", account=account.number)
    return [
        SavedStatement(name=row["name"], query=row["statement"], saved=time_of(row["saved"]))
        for row in rows
    ]
