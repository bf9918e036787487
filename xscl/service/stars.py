"""Starred matches: each with what it showed, which retention does not remove.

A star has the view model of its match as JSON, because the documents of the match may leave.
Renaming a subscription renames its stars, and purging its matches deletes them
(`xscl.subscriptions`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from xscl.delivery.cards import Card, MatchView
from xscl.polling.feed_repository import ticks
from xscl.service.accounts import Account, QuotaExceeded
from xscl.store.queries import owned_rows as stored
from xscl.store.queries.rows import delete_rows, rows_of
from xscl.store.store import Store
from xscl.time_format import written

MOST = 1_000
"""Starred matches of one user."""

StarMark: TypeAlias = tuple[int, str]
"""The place of a star among those of a user: its time, and the id of its match."""

_VIEW = TypeAdapter(MatchView)


@dataclass(frozen=True, slots=True)
class StoredStar:
    """A starred match as it was, with the reader's name of its subscription."""

    starred: int
    view: MatchView

    @property
    def mark(self) -> StarMark:
        """The place of the star."""
        return self.starred, self.view.id

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
        if len(listed) >= MOST:
            raise QuotaExceeded(f"you have {MOST:,} starred matches, and may have no more")
        shown = _VIEW.dump_json(view).decode()
        place = {"account": account.number, "match": view.id, "subscription": subscription}
        store.insert_rows("star", [{**place, "starred": ticks(), "view": shown}])


def starred_among(store: Store, account: Account, matches: Collection[str]) -> set[str]:
    """Return those of the ids of matches that a user has starred."""
    rows = rows_of(store, "star", "match", account=account.number, match=matches)
    return {row["match"] for row in rows}


def delete_star(store: Store, account: Account, match: str) -> None:
    """Delete the star of a match, if it has one."""
    delete_rows(store, "star", account=account.number, match=match)


def stars(
    store: Store, account: Account, limit: int, before: StarMark | None = None
) -> list[StoredStar]:
    """Return the newest stars of a user, or those before a place, with current names."""
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
    """Return the values of a card besides its title by name."""
    found: dict[str, list[str]] = {}
    for value in (card.text, *card.categories, *card.values):
        if value is not None:
            found.setdefault(value.name, []).append(value.text)
    return found
