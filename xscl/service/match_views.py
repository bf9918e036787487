"""View models of a user's matches, with the user's names and times of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xscl.delivery.cards import MatchView, shown
from xscl.documents.results import Subscription
from xscl.engine.match_log import MatchPlace
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.browsing import SEARCHED
from xscl.service.problems import not_found
from xscl.store.queries.browsing import times_of_arrival
from xscl.subscriptions.match import Match

LAST = 1 << 31
"""An upper bound of subscription numbers."""
_TOGETHER = 100  # matches of one position that are read at once


def match_views(app: App, account: Account, found: Sequence[Match]) -> list[MatchView]:
    """Return the view models of matches."""
    names = {name for match in found for name in match.names}
    with app.store() as store:
        arrived = times_of_arrival(store, names, searched=SEARCHED)
    return [
        replace(
            shown(match, account.named(match.subscription), account.named),
            arrived=max((arrived[one] for one in match.names if one in arrived), default=None),
        )
        for match in found
    ]


def match_view(
    app: App, account: Account, id: str, position: int, number: int | None = None
) -> MatchView:
    """Return the view model of the match of an id at a position; raises Problem 404.

    With the `number` of its subscription it is found at once, else among the matches of all
    subscriptions at the position.
    """

    def mine(one: Subscription) -> bool:
        return account.own(one.name) is not None

    before: MatchPlace = (position, LAST if number is None else number + 1)
    most = _TOGETHER if number is None else 1
    while True:
        page = app.engine.log.page_of_all(mine, before=before, limit=most, newest_first=True)
        for match in page.matches:
            if match.id == id and match.position == position:
                return match_views(app, account, [match])[0]
        last = page.matches[-1] if page.matches else None
        if number is not None or last is None or last.position < position or not page.more:
            raise not_found("match", id)
        before = last.position, last.number
